import { Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import { dialOnce, type Outcome } from "#proxy/detection/dial.ts";
import type { DialResult, ProbeDial, ProbeLookup, ProbePlan, ProbeResult } from "./result.ts";

/** Limit for one query, milliseconds. */
const LOOKUP_MS = 2000;

/** Runs all dials and lookups of a plan concurrently. Never throws: failures are results. */
export async function executePlan({ dials, names, own }: ProbePlan): Promise<ProbeResult> {
  const find = async (name: string) => tryElsewhere(await lookUp(name), own);
  const [dialled, lookups] = await Promise.all([Promise.all(dials.map(runDial)), Promise.all(names.map(find))]);
  return { dials: dialled, lookups };
}

/**
 * Tests whether pods get an answer at the addresses of a name if none is a load balancer's: some routers do not
 * forward connections that come from inside.
 */
async function tryElsewhere(lookup: ProbeLookup, own: ProbePlan["own"]): Promise<ProbeLookup> {
  const { name, addresses } = lookup;
  if (own === undefined || addresses.some((each) => own.includes(each))) return lookup;
  // A pod may lack an address of one family.
  const tried = [4, 6].flatMap((family) => addresses.find((address) => isIP(address) === family) ?? []);
  const dials = tried.map((address) => outcomeOf({ address, port: 443, speaks: "tls", header: "none", name }));
  const outcomes = await Promise.all(dials);
  const outcome =
    outcomes.find(({ kind }) => kind === "answered") ??
    outcomes.find(({ kind }) => kind !== "unreachable") ??
    outcomes[0];
  return outcome === undefined ? lookup : { ...lookup, outcome };
}

async function runDial(dial: ProbeDial): Promise<DialResult> {
  return { ...dial, outcome: await outcomeOf(dial) };
}

type Connection = Pick<ProbeDial, "address" | "port" | "speaks" | "header" | "name">;

function outcomeOf({ address, ...dial }: Connection): Promise<Outcome> {
  return dialOnce({ ...dial, host: address, path: "/", agent: "switchback-doctor" });
}

/** Resolves a name by DNS. Ignores the hosts file and the search list. */
async function lookUp(name: string): Promise<ProbeLookup> {
  const resolver = new Resolver({ timeout: LOOKUP_MS, tries: 2 });
  const [four, six] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  const addresses = [four, six].flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  if (addresses.length > 0) return { name, addresses };
  const failure = four.status === "rejected" ? (four.reason as NodeJS.ErrnoException).code : undefined;
  return { name, addresses, failure: failure ?? "ENODATA" };
}
