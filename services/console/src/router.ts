import { createStore } from "./lib/store";

// A view and its inputs, as the part of the address behind #: "#/pages?by=owner".
export interface Route {
  path: string[];
  query: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { path: path.split("/").filter(Boolean), query: new URLSearchParams(query) };
}

export function hrefOf(path: string, query: Record<string, string> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== "");
  const text = new URLSearchParams(given).toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

export const route = createStore<Route>(parseRoute(location.hash));
window.addEventListener("hashchange", () => route.set(parseRoute(location.hash)));

export function go(href: string): void {
  location.hash = href;
}

// Remembers inputs in the address without a step of the history.
export function remember(path: string, query: Record<string, string>): void {
  const href = hrefOf(path, query);
  if (href === location.hash) return;
  history.replaceState(null, "", href);
  route.set(parseRoute(href));
}
