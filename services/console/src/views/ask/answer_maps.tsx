import { useStore } from "../../lib/store";
import { KeptMap } from "../../ui/kept_map";
import { Panel } from "../../ui/panel";
import type { SideName } from "./settings";
import { answers } from "./state";

function SideMap({ name }: { name: SideName }) {
  const answer = useStore(answers[name]);
  const letter = name.toUpperCase();
  const ends = answer.kept?.map((layer) => layer.at(-1)?.end ?? 0) ?? [];
  return (
    <div class={`side-${name}`}>
      <h3>Side {letter}</h3>
      <KeptMap
        label={`Kept positions, side ${letter}`}
        layers={answer.kept ?? []}
        length={Math.max(0, ...ends)}
        prompt={answer.promptTokens}
        rowHeight={5}
      />
    </div>
  );
}

// The positions of prompt and answer that each layer kept, for both sides.
export function AnswerMaps() {
  const known = [useStore(answers.a), useStore(answers.b)].some((one) => one.kept !== null);
  if (!known) return null;
  return (
    <Panel title="Positions that each layer kept">
      <div class="token-sides">
        <SideMap name="a" />
        <SideMap name="b" />
      </div>
    </Panel>
  );
}
