import { parse } from "yaml";
import { type InjectFlags, inject } from "#cli/inject.ts";
import { captured, useFiles } from "./cli.ts";

export const POD = "kind: Pod\nmetadata: { name: p }\nspec: { containers: [] }\n";

/** Runs `switchback inject` in this process. Its input is a Pod unless the flags name other files. */
export async function injectRig() {
  const files = useFiles();
  const pod = await files.file("pod.yaml", POD);
  const begin = (flags: Partial<InjectFlags>) => {
    const { context, written } = captured();
    return { written, ended: inject({ filename: [pod], namespace: "ours", ...flags }, context) };
  };
  return {
    files,
    async run(flags: Partial<InjectFlags>) {
      const { written, ended } = begin(flags);
      await ended;
      return written;
    },
    /** Also returns the message of the error that ends the command. */
    async outputOf(flags: Partial<InjectFlags>) {
      const { written, ended } = begin(flags);
      const error = await ended.then(
        () => undefined,
        ({ message }: Error) => message,
      );
      return { ...written, error };
    },
  };
}

export function aliasesOf(stdout: string) {
  return parse(stdout).spec.hostAliases;
}
