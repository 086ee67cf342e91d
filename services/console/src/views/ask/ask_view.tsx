import { useEffect, useState } from "preact/hooks";
import { type ApiError, getJson } from "../../api/client";
import { apiKey } from "../../api/key";
import { useStore } from "../../lib/store";
import { hrefOf, parseRoute, remember } from "../../router";
import { KeyForm } from "../../ui/key_form";
import { AnswerMaps } from "./answer_maps";
import { PromptPanel } from "./prompt_panel";
import { decode, encode } from "./settings";
import { SidePanel } from "./side_panel";
import { settings } from "./state";
import { TokensPanel } from "./tokens_panel";

const SETTLED_MS = 300;

// Takes the inputs from the address when it is opened or changed by hand, and writes them there when they change.
function useLink(): void {
  const now = useStore(settings);
  useEffect(() => {
    const take = () => {
      const { path, query } = parseRoute(location.hash);
      if (path[0] === "ask" && query.size > 0) settings.set(decode(query));
    };
    take();
    window.addEventListener("hashchange", take);
    return () => window.removeEventListener("hashchange", take);
  }, []);
  useEffect(() => {
    const timer = setTimeout(() => {
      if (parseRoute(location.hash).path[0] === "ask") remember("ask", encode(now));
    }, SETTLED_MS);
    return () => clearTimeout(timer);
  }, [now]);
}

// The names of the models, and the error of the gateway if it gives none.
function useModels() {
  const key = useStore(apiKey);
  const [models, setModels] = useState<string[]>([]);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    const control = new AbortController();
    const ask = () =>
      getJson<{ data: { id: string }[] }>("/v1/models", control.signal)
        .then(({ data }) => {
          setModels(data.map((one) => one.id));
          setError(null);
        })
        .catch((cause) => {
          if (control.signal.aborted) return;
          setError(cause);
          if (cause.status !== 401) setTimeout(ask, 3000);
        });
    ask();
    return () => control.abort();
  }, [key]);
  return { models, error };
}

export function currentLink(): string {
  return `${location.origin}${location.pathname}${hrefOf("ask", encode(settings.get()))}`;
}

// One prompt under two settings, side by side.
export function AskView() {
  useLink();
  const { models, error } = useModels();
  if (error?.status === 401) {
    return (
      <div class="center">
        <KeyForm status={401} message={error.message} operator={false} />
      </div>
    );
  }
  return (
    <div class="main-grid">
      {error && (
        <div class="notice bad" role="alert">
          {error.message}
        </div>
      )}
      <PromptPanel models={models} />
      <div class="sides">
        <SidePanel name="a" />
        <SidePanel name="b" />
      </div>
      <TokensPanel />
      <AnswerMaps />
    </div>
  );
}
