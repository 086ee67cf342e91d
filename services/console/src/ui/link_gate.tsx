import type { ComponentChildren } from "preact";
import { link, pools } from "../data/monitor";
import { useStore } from "../lib/store";
import { KeyForm } from "./key_form";

// Shows a view once there is something to show. What was seen last stays, pale, while the manager is away.
export function LinkGate({ children }: { children: ComponentChildren }) {
  const now = useStore(link);
  const seen = useStore(pools) !== null;
  if (now.state === "key") {
    return (
      <div class="center">
        <KeyForm status={now.status} message={now.message} operator />
      </div>
    );
  }
  if (!seen) {
    return (
      <div class="center">
        {now.state === "lost" ? (
          <div class="notice bad narrow">
            <h2>{headlineOf(now.status)}</h2>
            <p>{now.message}</p>
            <p class="muted small">The page asks again every two seconds.</p>
          </div>
        ) : (
          <p class="muted">Asking the manager …</p>
        )}
      </div>
    );
  }
  return (
    <div class={`main-grid ${now.state === "lost" ? "stale" : ""}`}>
      {now.state === "lost" && (
        <div class="toast notice bad">
          <p>
            <b>{headlineOf(now.status)}</b> You see the last state.
          </p>
          <p class="muted small">{now.message}</p>
        </div>
      )}
      {children}
    </div>
  );
}

function headlineOf(status: number): string {
  if (status === 0) return "The gateway cannot be reached.";
  return status === 503 ? "The manager cannot be reached." : `The gateway refuses (${status}).`;
}
