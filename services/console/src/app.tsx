import { useEffect, useRef } from "preact/hooks";
import { useStore } from "./lib/store";
import { type Route, route } from "./router";
import { Header } from "./ui/header";
import { LinkGate } from "./ui/link_gate";
import { AskView } from "./views/ask/ask_view";
import { OverviewView } from "./views/overview/overview_view";
import { PagesView } from "./views/pages/pages_view";
import { SequenceListView } from "./views/sequence/list_view";
import { SequenceView } from "./views/sequence/sequence_view";

function titleOf({ path }: Route): string {
  const [view = "overview", id] = path;
  if (view === "sequences" && id) return `Sequence ${id}`;
  return { pages: "Pages", sequences: "Sequences", ask: "Ask" }[view] ?? "Overview";
}

function View({ at }: { at: Route }) {
  const [view, id] = at.path;
  if (view === "ask") return <AskView />;
  return (
    <LinkGate>
      {view === "pages" ? (
        <PagesView />
      ) : view === "sequences" && id ? (
        <SequenceView key={id} id={id} />
      ) : view === "sequences" ? (
        <SequenceListView />
      ) : (
        <OverviewView />
      )}
    </LinkGate>
  );
}

export function App() {
  const at = useStore(route);
  const title = titleOf(at);
  const heading = useRef<HTMLHeadingElement>(null);
  const shown = useRef(title);
  useEffect(() => {
    document.title = `${title} · Folio console`;
    // Who has followed a link reads on at the heading of the new view.
    if (shown.current !== title) heading.current?.focus();
    shown.current = title;
  }, [title]);
  return (
    <>
      <button type="button" class="button skip" onClick={() => heading.current?.focus()}>
        Skip to the contents
      </button>
      <Header view={at.path[0] ?? "overview"} />
      <main class="main" id="main">
        <h1 class="hidden" tabIndex={-1} ref={heading}>
          {title}
        </h1>
        <View at={at} />
      </main>
    </>
  );
}
