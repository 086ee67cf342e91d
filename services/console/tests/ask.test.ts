import assert from "node:assert/strict";
import { test } from "node:test";
import { EventSplitter } from "../src/api/stream";
import { holds, layersOf, overlap, shares, total } from "../src/lib/ranges";
import { addChunk, IDLE, speedOf } from "../src/views/ask/answer";
import { DEFAULTS, decode, encode, requestText } from "../src/views/ask/settings";

test("a link has all inputs", () => {
  const settings = {
    ...DEFAULTS,
    system: "Be brief & kind",
    prompt: "One?\nTwo #2 = 100 %\u{1f389}",
    seed: 77,
    mode: "pipelined" as const,
    order: "turns" as const,
    a: { ...DEFAULTS.a, policy: "snap_kv", parameters: "window=32", share: 1 },
    b: { ...DEFAULTS.b, unit: "tokens" as const, tokens: 512, layers: "shared" as const },
  };
  const link = new URLSearchParams(encode(settings)).toString();
  const back = decode(new URLSearchParams(link));
  // The budget in the other unit is no input.
  assert.deepEqual(back, { ...settings, b: { ...settings.b, share: 0.5 } });
});

test("a share of one is no token", () => {
  const text = requestText(DEFAULTS, { ...DEFAULTS.b, share: 1 });
  assert.match(text, /"budget":1\.0,/);
  const body = JSON.parse(text);
  assert.equal(body.cache.policy, "query_diff");
  assert.equal(body.cache.report_kept, true);
  assert.equal(body.messages.length, 1);
  assert.equal("budget" in JSON.parse(requestText(DEFAULTS, DEFAULTS.a)).cache, false);
});

test("events are whole, wherever the bytes are cut", () => {
  const stream = 'data: {"a":1}\n\n: comment\n\ndata: {"b":\ndata: 2}\r\n\r\ndata: [DONE]\n\n';
  for (let cut = 0; cut <= stream.length; ++cut) {
    const splitter = new EventSplitter();
    const got = [...splitter.add(stream.slice(0, cut)), ...splitter.add(stream.slice(cut))];
    // A cut between the two bytes of a line break may make an event of nothing.
    assert.deepEqual(
      got.map((one) => JSON.parse(one)),
      [{ a: 1 }, { b: 2 }],
      `cut at ${cut}`,
    );
  }
});

test("an answer grows by chunks, and knows its speed", () => {
  let answer = addChunk(IDLE, { choices: [{ delta: { content: "One" } }] }, 1000);
  answer = addChunk(answer, { choices: [{ delta: { content: " two" } }] }, 1500);
  assert.deepEqual([answer.text, speedOf(answer)], ["One two", 2]);
  const cache = { kept: [[[0, 2]], [[1, 3]]] as [number, number][][] };
  answer = addChunk(answer, { choices: [{ finish_reason: "stop", cache: cache as never }] }, 1600);
  assert.deepEqual([...layersOf(answer.kept ?? [], 3)], [1, 2, 1]);
  answer = addChunk(
    answer,
    { choices: [], usage: { prompt_tokens: 3, completion_tokens: 6 } },
    1600,
  );
  assert.equal(speedOf(answer), 10);
  const failed = addChunk(answer, { error: { message: "gone" } }, 1700);
  assert.deepEqual([failed.state, failed.error?.message], ["failed", "gone"]);
});

test("ranges answer for positions", () => {
  const ranges = [
    { begin: 0, end: 2 },
    { begin: 5, end: 8 },
  ];
  assert.equal(total(ranges), 5);
  assert.deepEqual(
    [0, 1, 2, 4, 5, 7, 8].filter((at) => holds(ranges, at)),
    [0, 1, 5, 7],
  );
  assert.equal(overlap(ranges, 1, 6), 2);
  assert.deepEqual([...shares(ranges, 8, 4)], [1, 0, 0.5, 1]);
  assert.deepEqual([...shares(ranges, 8, 8)], [1, 1, 0, 0, 0, 1, 1, 1]);
});
