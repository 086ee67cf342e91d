import { EventsPanel } from "./events_panel";
import { PoolPanel } from "./pool_panel";
import { SlowestPanel } from "./slowest_panel";
import { TenantsPanel } from "./tenants_panel";
import { ThroughputPanels } from "./throughput_panels";
import { WorkersPanel } from "./workers_panel";

// All of the node on one page, as `folioctl top` shows it on a terminal.
export function OverviewView() {
  return (
    <div class="columns">
      <PoolPanel />
      <ThroughputPanels />
      <SlowestPanel />
      <WorkersPanel />
      <TenantsPanel />
      <EventsPanel />
    </div>
  );
}
