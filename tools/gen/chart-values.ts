import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { chartValues, configSections } from "#cli/added-by-extras.ts";
import { EXTRAS } from "#cli/extras.ts";
import type { Section } from "#lib/config/sections.ts";
import type { Generator } from "./generator.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const CONFIG = "config";
const IN_CONFIG = "  ";
const HEAD = "# Made by `npm run gen` of manifests/core-values.yaml and extras/*/chart/values.yaml: change those.\n";

/** A key of a YAML text, with the comments above it and the lines below it. */
interface Block {
  readonly key: string;
  readonly lines: string[];
}

/** The chart's values.yaml: the core's text, with each extra's text in the places of its sections. */
export const chartValuesFile: Generator = {
  name: "chart-values",
  file: "manifests/chart/values.yaml",
  render: async () => {
    const added: Block[] = [];
    for (const { name } of EXTRAS) added.push(...blocksOf(await textOf(`extras/${name}/chart/values.yaml`)));
    const [sections, values] = await Promise.all([configSections(), chartValues()]);
    const settings = added.filter(({ key }) => key === CONFIG).flatMap(innerBlocks);
    const core = blocksOf((await textOf("manifests/core-values.yaml")) ?? "").map((block) =>
      block.key === CONFIG ? withInner(block, inPlaces(innerBlocks(block), settings, sections)) : block,
    );
    const others = added.filter(({ key }) => key !== CONFIG);
    const texts = inPlaces(core, others, values).map(({ lines }) => lines.join("\n").trimEnd());
    return `${HEAD}${texts.join("\n\n")}\n`;
  },
};

async function textOf(path: string): Promise<string | undefined> {
  return await readFile(join(ROOT, path), "utf8").catch(() => undefined);
}

function blocksOf(text = "", indent = ""): Block[] {
  const blocks: Block[] = [];
  let above: string[] = [];
  for (const line of text.trimEnd().split("\n")) {
    const [, key] = line.startsWith(indent) ? (/^(\w+):/.exec(line.slice(indent.length)) ?? []) : [];
    if (key !== undefined) {
      blocks.push({ key, lines: [...above, line] });
      above = [];
    } else if (line.startsWith(`${indent}#`) || above.length > 0) {
      above.push(line);
    } else {
      blocks.at(-1)?.lines.push(line);
    }
  }
  return blocks;
}

/** The blocks below the line of the key itself. */
function innerBlocks({ key, lines }: Block): Block[] {
  return blocksOf(lines.slice(lines.indexOf(`${key}:`) + 1).join("\n"), IN_CONFIG);
}

function withInner({ key, lines }: Block, inner: readonly Block[]): Block {
  const own = lines.slice(0, lines.indexOf(`${key}:`) + 1);
  return { key, lines: [...own, ...inner.flatMap((one) => one.lines)] };
}

/** Inserts each added block where the schema has its section. */
function inPlaces(core: readonly Block[], added: readonly Block[], sections: readonly Section[]): Block[] {
  const places = added.map((block) => {
    const before = sections.find(({ name }) => name === block.key)?.before;
    if (!core.some(({ key }) => key === before)) throw new Error(`values.yaml has no place for ${block.key}`);
    return { block, before };
  });
  return core.flatMap((one) => [...places.filter(({ before }) => before === one.key).map(({ block }) => block), one]);
}
