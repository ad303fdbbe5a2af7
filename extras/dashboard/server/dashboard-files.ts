import type { Page } from "#lib/http/listen.ts";
import { PAGE, pageFiles } from "./page-files.ts";

/** The program's own files, by their paths in the repository. */
export interface OwnFiles {
  /** The text of a file. Throws if the file does not exist. */
  ownFile(path: string): string;
  /** Whether the program has this file or folder. */
  hasOwnFile(path: string): boolean;
}

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
