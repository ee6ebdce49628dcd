// Package openai reads from the body of an OpenAI-style request what routing
// needs of it: the model, the tenant, whether the reply is a stream, and the
// canonical text that the request's prefix keys are made of.
//
// What is no part of the prompt is no part of the text: white space, the order
// of keys, sampling settings and stream flags do not change it. In order, the
// text has the tool definitions, the system prompt of the APIs that have a
// field for it, and the messages; or else the prompts, queries and documents.
//
//	tools           0xFF 'T' array (functions: 'F'; they end like a message)
//	message         0xFF 'M' fields
//	role            0xFF 'r' text
//	content         0xFF 'c' parts, with 0xFF 'p' between them
//	output          0xFF 'o' parts, or a value (Responses)
//	name            0xFF 'n' text
//	tool_calls      0xFF 't' array
//	function_call   0xFF 'a' value (Responses: arguments, text)
//	tool_call_id    0xFF 'i' text (Responses: call_id)
//	part            text, then of a tool result 0xFF 'c' its parts, of a tool
//	                use 0xFF 'j' its input, and 0xFF 'x' a digest of the rest
//	item (rest)     0xFF 'x' digest (Responses)
//	prompt          0xFF 'P' text or value, or 0xFF 'I' token ids
//	query, text_1   0xFF 'Q' prompts
//	documents, text_2  0xFF 'D' prompts
//	prompt_embeds   0xFF 'E' value
//
// Text is decoded string bytes. Arrays and values are compact JSON without
// colons, keys in the order given, since engines render tools in that order; a
// string stands between two bytes 0xFE and is not escaped, and a number, true,
// false or null ends with a comma. A digest is 16 hexadecimal digits over all
// keys and values that have no field of their own, in any order: of images,
// audio and files mostly. A part without text vanishes.
//
// Of a message, other keys than these do not count, nor does the reasoning in
// any of its forms; of an item of a Responses input, all others count but type,
// id, status and reasoning; of a part, all but its type, cache hints,
// annotations and thinking. A value of null is as good as absent.
package openai
