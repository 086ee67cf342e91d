import { useEffect, useState } from "preact/hooks";

// A value that components follow.
export interface Store<T> {
  get(): T;
  set(value: T): void;
  subscribe(listener: () => void): () => void;
}

export function createStore<T>(value: T): Store<T> {
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function useStore<T>(store: Store<T>): T {
  const [, draw] = useState({});
  const value = store.get();
  useEffect(() => {
    // It may have changed between the drawing and this effect.
    if (!Object.is(store.get(), value)) draw({});
    return store.subscribe(() => draw({}));
  }, [store]);
  return value;
}
