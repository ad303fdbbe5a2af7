import type { Page } from "#lib/http/listen.ts";
import type { OwnFiles } from "../../extension-points.ts";
import { PAGE, pageFiles } from "./page-files.ts";

/** The page's files. A released command has them built; a checkout builds them now. */
export async function dashboardFiles({ ownFile, hasOwnFile }: OwnFiles): Promise<Record<string, Page>> {
  const built = hasOwnFile(`${PAGE}/app.js`) ? (name: string) => ownFile(`${PAGE}/${name}`) : await builtNow();
  return pageFiles({
    script: built("app.js"),
    style: built("app.css"),
    html: ownFile(`${PAGE}/index.html`),
    codes: ownFile("docs/codes.md"),
  });
}

async function builtNow(): Promise<(name: string) => string> {
  const { bundlePage } = await import("./bundle-page.ts");
  const { files } = await bundlePage();
  return (name) => files[`${PAGE}/${name}`] ?? "";
}
