import { ApiError } from "./client";

const RETRY_MS = 2000;
const PATIENCE_MS = 10_000;

// Asks again and again: one request at a time, and none while the tab is hidden.
export class Poller<T> {
  private timer = 0;
  private running: AbortController | null = null;
  private stopped = true;

  constructor(
    private readonly every: number,
    private readonly ask: (signal: AbortSignal) => Promise<T>,
    private readonly take: (value: T) => void,
    private readonly fail: (error: ApiError) => void,
  ) {}

  start(): void {
    if (!this.stopped) return;
    this.stopped = false;
    document.addEventListener("visibilitychange", this.onVisibility);
    this.again(0);
  }

  stop(): void {
    this.stopped = true;
    document.removeEventListener("visibilitychange", this.onVisibility);
    window.clearTimeout(this.timer);
    this.running?.abort();
    this.running = null;
  }

  private readonly onVisibility = () => {
    if (!document.hidden && !this.running) this.again(0);
  };

  private again(delay: number): void {
    window.clearTimeout(this.timer);
    if (!this.stopped) this.timer = window.setTimeout(() => this.once(), delay);
  }

  private async once(): Promise<void> {
    if (document.hidden || this.running) return;
    const began = performance.now();
    const running = new AbortController();
    this.running = running;
    const late = window.setTimeout(() => running.abort(), PATIENCE_MS);
    let delay = this.every;
    let outcome: () => void;
    try {
      const value = await this.ask(running.signal);
      outcome = () => this.take(value);
    } catch (cause) {
      const error =
        cause instanceof ApiError ? cause : new ApiError(0, "The gateway does not answer.");
      outcome = () => this.fail(error);
      delay = RETRY_MS;
    }
    window.clearTimeout(late);
    if (this.running !== running) return; // stopped meanwhile
    this.running = null;
    // The next one is planned first, because the outcome may stop it. It waits for as long as this one took, so that a slow
    // manager or network is never asked without a break.
    const took = performance.now() - began;
    this.again(Math.max(50, delay - took, took));
    outcome();
  }
}
