// Server-sent events of OpenAI's API: the data of each, without the end.

export class EventSplitter {
  private rest = "";

  // The data of the events that are whole by now.
  add(text: string): string[] {
    const pieces = (this.rest + text).split(/\r?\n\r?\n/);
    this.rest = pieces.pop() ?? "";
    return pieces.flatMap((piece) => {
      const lines = piece.split(/\r?\n/).filter((line) => line.startsWith("data:"));
      const data = lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n");
      return data && data !== "[DONE]" ? [data] : [];
    });
  }
}

export async function* readEvents(response: Response): AsyncGenerator<string> {
  const reader = response.body?.getReader();
  if (!reader) return;
  const decoder = new TextDecoder();
  const splitter = new EventSplitter();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* splitter.add(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
