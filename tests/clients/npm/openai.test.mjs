// The official client in JavaScript: chats, streams, tools, forms of the answer, errors and requests that are given up.
import assert from "node:assert/strict";
import { test } from "node:test";

import OpenAI from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const { FOLIO_MAIN: MAIN, FOLIO_BUSY: BUSY, FOLIO_EMPTY: EMPTY, FOLIO_KEY: KEY } = process.env;
const asking = (url, options = {}) => new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0, ...options });

const client = asking(MAIN);
const model = (await client.models.list()).data[0].id;
const messages = [
  { role: "system", content: "You answer in one word." },
  { role: "user", content: "The capital of France?" },
];
const greedy = { model, messages, temperature: 0, max_tokens: 24 };
const long = { model: "", prompt: "a", max_tokens: 60000, ignore_eos: true };

async function metric(url, name) {
  const text = await (await fetch(`${url}/metrics`)).text();
  const values = text.split("\n").filter((line) => line.startsWith(name)).map((line) => Number(line.split(" ").at(-1)));
  return values.reduce((sum, value) => sum + value, 0);
}

async function until(condition) {
  const deadline = Date.now() + 60000;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, "it takes too long");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// The request for the metrics is the only one.
const idle = () => until(async () => (await metric(BUSY, "folio:gateway_requests_running")) === 1);

test("models", async () => {
  const found = await client.models.retrieve(model);
  assert.equal(found.id, model);
  assert.equal(found.owned_by, "folio");
});

test("a chat and its stream", async () => {
  const { data: whole, request_id: id } = await client.chat.completions.create(greedy).withResponse();
  assert.ok(whole.choices[0].message.content.includes("Paris"));
  assert.equal(whole._request_id, id);
  assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);
  let text = "", usage;
  for await (const chunk of await client.chat.completions.create({ ...greedy, stream: true, stream_options: { include_usage: true } })) {
    text += chunk.choices[0]?.delta?.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.deepEqual(usage, whole.usage);
});

test("the stream helper gathers the answer", async () => {
  const deltas = [];
  const asked = { ...greedy, logprobs: true, top_logprobs: 2 };
  const stream = client.chat.completions.stream(asked).on("content", (delta) => deltas.push(delta));
  const final = await stream.finalChatCompletion();
  assert.equal(deltas.join(""), final.choices[0].message.content);
  const both = await client.chat.completions.stream({ ...asked, n: 2 }).finalChatCompletion();
  assert.deepEqual(both.choices.map((choice) => choice.message.content), Array(2).fill(final.choices[0].message.content));
  assert.equal(final.choices[0].logprobs.content[0].top_logprobs.length, 2);
});

test("an answer is parsed by its schema", async () => {
  const City = z.object({ name: z.string().max(20), people: z.number().int().min(1).max(9999) });
  const parsed = await client.chat.completions.parse({
    ...greedy, messages: [{ role: "user", content: "Name a city." }], max_tokens: 80, response_format: zodResponseFormat(City, "city"),
  });
  assert.deepEqual(City.parse(JSON.parse(parsed.choices[0].message.content)), parsed.choices[0].message.parsed);
});

test("tools are run and their results go back", async () => {
  const asked = [];
  const weather = zodFunction({
    name: "weather", parameters: z.object({ city: z.string().max(20) }), function: ({ city }) => { asked.push(city); return "It is sunny."; },
  });
  const question = [{ role: "user", content: "How is the weather in Rome?" }];
  const runner = client.chat.completions.runTools({
    ...greedy, messages: question, tools: [weather], tool_choice: { type: "function", function: { name: "weather" } },
  });
  await runner.done();
  assert.deepEqual(runner.messages.map((message) => message.role), ["user", "assistant", "tool"]);
  assert.equal(asked.length, 1);
  const after = await client.chat.completions.create({ ...greedy, messages: runner.messages });
  assert.ok(after.choices[0].message.content);
});

test("completions with options of the cache", async () => {
  const { choices: [choice] } = await client.completions.create({
    model, prompt: "word ".repeat(300), max_tokens: 4, temperature: 0, cache: { policy: "key_diff", budget: 64 },
  });
  assert.equal(choice.cache.policy, "key_diff");
  assert.ok(choice.cache.evicted_tokens > 100);
});

test("errors are the client's classes", async () => {
  await assert.rejects(asking(MAIN, { apiKey: "sk-wrong" }).models.list(), OpenAI.AuthenticationError);
  await assert.rejects(client.chat.completions.create({ ...greedy, model: "gpt-4o" }), OpenAI.NotFoundError);
  await assert.rejects(client.embeddings.create({ model, input: "a" }), OpenAI.NotFoundError);
  await assert.rejects(client.chat.completions.create({ ...greedy, temperature: -1 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.deepEqual([error.status, error.param, error.type], [400, "temperature", "invalid_request_error"]);
    assert.ok(error.requestID);
    return true;
  });
  await assert.rejects(asking(EMPTY).completions.create({ model: "", prompt: "a" }), (error) => {
    assert.ok(error instanceof OpenAI.InternalServerError);
    assert.equal(error.status, 503);
    return true;
  });
});

test("a request that is given up ends its sequence", async () => {
  await idle();
  const busy = asking(BUSY);
  await assert.rejects(asking(BUSY, { timeout: 500 }).completions.create(long), OpenAI.APIConnectionTimeoutError);
  await idle();
  const stream = await busy.completions.create({ ...long, stream: true });
  for await (const chunk of stream) {
    assert.equal(chunk.object, "text_completion");
    break; // The client aborts the request.
  }
  await idle();
  const stop = new AbortController();
  const asked = busy.completions.create(long, { signal: stop.signal });
  setTimeout(() => stop.abort(), 300);
  await assert.rejects(asked, OpenAI.APIUserAbortError);
  await idle();
});

test("a queue that is full", async () => {
  await idle();
  const busy = asking(BUSY);
  const first = await busy.completions.create({ ...long, stream: true });
  const stop = new AbortController();
  const waiting = assert.rejects(busy.completions.create(long, { signal: stop.signal }), OpenAI.APIUserAbortError);
  await until(async () => (await metric(BUSY, "folio:gateway_requests_running")) === 3);
  await assert.rejects(busy.completions.create({ model: "", prompt: "a" }), OpenAI.RateLimitError);
  first.controller.abort();
  stop.abort();
  await waiting;
  await idle();
});
