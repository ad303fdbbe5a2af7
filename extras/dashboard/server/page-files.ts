import type { Page } from "#lib/http/listen.ts";
import { adviceIn } from "./codes.ts";

/** The folder of the page's sources; a released command has the built files under the same paths. */
export const PAGE = "extras/dashboard/page";

interface PageSources {
  /** Text of the built `app.js`; `style` is that of the built `app.css`. */
  readonly script: string;
  readonly style: string;
  readonly html: string;
  /** The text of docs/codes.md. */
  readonly codes: string;
}

/** The files that the server serves, by path. */
export function pageFiles({ script, style, html, codes }: PageSources): Record<string, Page> {
  return {
    "": { contentType: "text/html; charset=utf-8", body: html },
    "app.js": { contentType: "text/javascript; charset=utf-8", body: script },
    "app.css": { contentType: "text/css; charset=utf-8", body: style },
    "codes.json": { contentType: "application/json", body: JSON.stringify(adviceIn(codes)) },
  };
}
