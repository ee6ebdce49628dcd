// openai-node against a router: only the base URL is changed.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { OpenAI, awaitIdle, backendHeader, demoURLs, openaiURL, root } from './cluster.mjs';

const messages = [{ role: 'user', content: 'Why is the sky blue?' }];

const connect = (baseURL) => new OpenAI({ baseURL, apiKey: 'any', maxRetries: 0, timeout: 30_000 });

async function collect(stream) {
  const all = [];
  for await (const item of stream) all.push(item);
  return all;
}

const textOf = (chunks) => chunks.map((c) => c.choices[0]?.delta.content ?? '').join('');

for (const [name, url] of Object.entries(demoURLs)) {
  describe(`endpoint named by ${name}`, () => {
    const client = connect(url);

    test('chat', async () => {
      const chat = await client.chat.completions.create({ model: 'demo', messages, max_completion_tokens: 9 });
      assert.equal(chat.object, 'chat.completion');
      assert.equal(chat.choices[0].message.role, 'assistant');
      assert.ok(chat.choices[0].message.content);
      assert.equal(chat.choices[0].finish_reason, 'length');
      assert.equal(chat.usage.completion_tokens, 9);
      assert.ok(chat._request_id);
    });

    test('chat as a stream', async () => {
      const whole = await client.chat.completions.create({ model: 'demo', messages, max_tokens: 9 });
      const chunks = await collect(
        await client.chat.completions.create({ model: 'demo', messages, max_tokens: 9, stream: true }),
      );
      assert.equal(textOf(chunks), whole.choices[0].message.content);
      assert.equal(chunks.at(-1).choices[0].finish_reason, 'length');
    });

    test('chat as a stream with usage', async () => {
      const chunks = await collect(
        await client.chat.completions.create({
          model: 'demo', messages, max_tokens: 9, stream: true, stream_options: { include_usage: true },
        }),
      );
      assert.deepEqual(chunks.at(-1).choices, []);
      assert.equal(chunks.at(-1).usage.completion_tokens, 9);
      assert.ok(chunks.at(-1).usage.prompt_tokens > 0);
    });

    test('the stream helper', async () => {
      const runner = client.chat.completions.stream({ model: 'demo', messages, max_tokens: 9 });
      const final = await runner.finalChatCompletion();
      assert.ok(final.choices[0].message.content);
      assert.equal(final.choices[0].finish_reason, 'length');
    });

    test('completions', async () => {
      const ask = { model: 'demo', prompt: 'Once upon a time', max_tokens: 7 };
      const whole = await client.completions.create(ask);
      assert.equal(whole.object, 'text_completion');
      assert.equal(whole.usage.completion_tokens, 7);
      const chunks = await collect(await client.completions.create({ ...ask, stream: true }));
      assert.equal(chunks.map((c) => c.choices[0].text).join(''), whole.choices[0].text);
    });

    test('responses', async () => {
      const ask = { model: 'demo', input: 'Why is the sky blue?', max_output_tokens: 8 };
      const whole = await client.responses.create(ask);
      assert.ok(whole.output_text);
      assert.equal(whole.usage.output_tokens, 8);
      const events = await collect(await client.responses.create({ ...ask, stream: true }));
      assert.equal(events[0].type, 'response.created');
      assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i));
      const deltas = events.filter((e) => e.type === 'response.output_text.delta').map((e) => e.delta);
      assert.equal(deltas.join(''), whole.output_text);
      assert.equal(events.at(-1).response.usage.output_tokens, 8);
    });

    test('embeddings', async () => {
      const ask = { model: 'demo', input: ['one', 'two'] };
      const decoded = await client.embeddings.create(ask); // the SDK asks for base64
      const floats = await client.embeddings.create({ ...ask, encoding_format: 'float' });
      const base64 = await client.embeddings.create({ ...ask, encoding_format: 'base64' });
      assert.equal(typeof base64.data[0].embedding, 'string');
      assert.deepEqual(decoded.data.map((d) => d.index), [0, 1]);
      decoded.data.forEach((d, i) =>
        d.embedding.forEach((v, j) => assert.ok(Math.abs(v - floats.data[i].embedding[j]) < 1e-6)),
      );
    });

    test('models', async () => {
      const ids = (await collect(await client.models.list())).map((m) => m.id);
      assert.ok(ids.includes('demo'), `${ids}`);
      assert.equal((await client.models.retrieve('demo')).id, 'demo');
      await assert.rejects(client.models.retrieve('nobody'), OpenAI.NotFoundError);
    });

    test('a model that does not exist', async () => {
      await assert.rejects(client.chat.completions.create({ model: 'nobody', messages }), (err) => {
        assert.ok(err instanceof OpenAI.NotFoundError, `${err}`);
        assert.match(err.message, /nobody/);
        return true;
      });
    });

    for (const [what, bad] of Object.entries({ empty: [], string: 'Why?', number: [7], null: null })) {
      test(`bad messages: ${what}`, async () => {
        await assert.rejects(client.chat.completions.create({ model: 'demo', messages: bad }), (err) => {
          assert.ok(err instanceof OpenAI.BadRequestError, `${err}`);
          assert.match(err.param, /^messages/);
          return true;
        });
      });
    }

    for (const body of ['', '{', '{"model":"demo","messages":[', '[]', '"demo"']) {
      test(`malformed body ${JSON.stringify(body)}`, async () => {
        const answer = await fetch(`${url}/chat/completions`, {
          method: 'POST', body, headers: { 'content-type': 'application/json' },
        });
        assert.equal(answer.status, 400);
        assert.ok((await answer.json()).error.message);
      });
    }

    test('abort', async () => {
      const { data: stream, response } = await client.chat.completions
        .create({ model: 'demo', messages, max_tokens: 100_000, stream: true })
        .withResponse();
      for await (const chunk of stream) {
        assert.equal(chunk.object, 'chat.completion.chunk');
        stream.controller.abort();
      }
      await awaitIdle(response.headers.get(backendHeader));
    });

    test('abort before the answer', async () => {
      const controller = new AbortController();
      const ask = { model: 'demo', messages, max_tokens: 100_000 };
      const asked = client.chat.completions.create(ask, { signal: controller.signal });
      setTimeout(() => controller.abort(), 30);
      await assert.rejects(asked, OpenAI.APIUserAbortError);
    });

    test('prefix affinity', async () => {
      const system = { role: 'system', content: `${url} answers in verse for node. `.repeat(200) };
      const backends = new Set();
      for (const [i, question] of ['Why is the sky blue?', 'How deep is the sea?', 'Who wrote this?'].entries()) {
        const { data, response } = await client.chat.completions
          .create({ model: 'demo', messages: [system, { role: 'user', content: question }], max_tokens: 4 })
          .withResponse();
        backends.add(response.headers.get(backendHeader));
        const { prompt_tokens: prompt, prompt_tokens_details: details } = data.usage;
        if (i > 0) assert.ok(details.cached_tokens > prompt * 0.9, `${details.cached_tokens} of ${prompt}`);
      }
      assert.equal(backends.size, 1);
    });

    test('streams side by side', async () => {
      const ask = { model: 'demo', messages, max_tokens: 20, stream: true };
      const texts = await Promise.all(
        Array.from({ length: 16 }, async () => textOf(await collect(await client.chat.completions.create(ask)))),
      );
      assert.equal(new Set(texts).size, 1);
    });
  });
}

test('codes of errors', async () => {
  await assert.rejects(connect(`${root}/v1`).chat.completions.create({ model: 'nobody', messages }), (err) => {
    assert.equal(err.code, 'model_not_found');
    assert.equal(err.type, 'invalid_request_error');
    assert.ok(err.requestID);
    return true;
  });
});

test('an endpoint that does not exist', async () => {
  await assert.rejects(connect(openaiURL('nobody')).chat.completions.create({ model: 'nobody', messages }), (err) => {
    assert.ok(err.status >= 400 && err.status < 500, `${err}`);
    assert.equal(err.type, 'invalid_request_error');
    assert.match(err.message, /nobody/);
    return true;
  });
});

test("a server's own errors", async () => {
  await assert.rejects(connect(openaiURL('busy')).chat.completions.create({ model: 'busy', messages }), (err) => {
    assert.ok(err instanceof OpenAI.RateLimitError, `${err}`);
    assert.equal(err.headers.get('retry-after'), '7');
    return true;
  });
  await assert.rejects(
    connect(openaiURL('failing')).chat.completions.create({ model: 'failing', messages }),
    OpenAI.InternalServerError,
  );
});

test('a server that dies mid-stream', async () => {
  const stream = await connect(openaiURL('dying')).chat.completions.create({ model: 'dying', messages, stream: true });
  const seen = [];
  await assert.rejects(
    async () => {
      for await (const chunk of stream) seen.push(chunk);
    },
    (err) => {
      assert.ok(err instanceof OpenAI.APIError, `${err}`); // an error event, not a mere reset
      assert.ok(err.error?.message);
      return true;
    },
  );
  assert.equal(seen.length, 3);
});
