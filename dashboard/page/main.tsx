import { render } from "preact";
import { App } from "./app.tsx";
import { followFeed } from "./feed.ts";
import { PageState } from "./state.ts";

const state = new PageState();
followFeed(state);
render(<App state={state} />, document.body);
