import { executePlan } from "#doctor/probe/ask.ts";
import { type ProbePlan, planSchema } from "#doctor/probe/result.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { parse } from "#lib/errors/validation.ts";
import type { CliContext } from "#lib/process/context.ts";

/**
 * `switchback probe`, which runs in the pod of `switchback doctor --probe`. Takes the plan as JSON and prints the
 * result as JSON.
 */
export async function probe(plan: string, { stdout }: Pick<CliContext, "stdout">): Promise<void> {
  stdout.line(JSON.stringify(await executePlan(parsePlan(plan))));
}

function parsePlan(text: string): ProbePlan {
  try {
    return parse(planSchema, JSON.parse(text));
  } catch (cause) {
    throw new SwitchbackError("input-invalid", "the plan is not from `switchback doctor --probe`", { cause });
  }
}
