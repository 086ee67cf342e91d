import "uplot/dist/uPlot.min.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/frame.css";
import "./styles/pictures.css";
import "./styles/overview.css";
import "./styles/ask.css";
import { render } from "preact";
import { App } from "./app";
import { startMonitor } from "./data/monitor";

render(<App />, document.getElementById("app") as HTMLElement);
startMonitor();
