// The cluster under test, as harness_test.go builds it; python/cluster.py says
// what is in it.

import { createRequire } from 'node:module';

// The SDK is where install.sh put it: sdks_test.go makes that the working directory.
export const OpenAI = createRequire(`${process.cwd()}/`)('openai');

export const root = process.env.WARMRING_BASE_URL.replace(/\/+$/, '');

export const openaiURL = (endpoint) => `${root}/endpoints/${endpoint}/openai/v1`;

// Both ways to name an endpoint: by the body's model, and by the path.
export const demoURLs = { model: `${root}/v1`, path: openaiURL('demo') };

export const backendHeader = 'x-warmring-backend';

// awaitIdle resolves to the milliseconds until nothing ran on the backend.
export async function awaitIdle(backend, limit = 10_000) {
  const begin = performance.now();
  for (;;) {
    const stats = await (await fetch(`http://${backend}/control/stats`)).json();
    const took = performance.now() - begin;
    if (stats.running + stats.waiting === 0) return took;
    if (took > limit) throw new Error(`after ${took} ms there are requests on ${backend}: ${JSON.stringify(stats)}`);
  }
}
