import assert from "node:assert/strict";
import { peakMemory } from "../../../cluster/memory-group.ts";
import { until } from "../../system.ts";
import type { Replica } from "../../system-options.ts";
import type { Attack } from "../attack.ts";
import { HOSTILE, type Stage, WIDE } from "../stage.ts";
import { createService, services } from "./targets.ts";
import { createIngress, giveAddress, ingresses, startSpare, sweep } from "./tenant.ts";

// Attacks by amounts: more claims than the controller can keep, and more addresses than a name needs.

const MANY_INGRESSES = 230;
const HOSTS = 1_000;
/** What a controller may take of its limit of 256 MiB, in MiB. These attacks are the first ones of a stage. */
const MOST_MIB = 200;
/** The target of a tenant's own Service. It has an address, so its names are looked up. */
const OWN = { name: "wide", ip: "192.0.2.130" };
const WIDE_MS = 480_000;
/** The chart's `config.policy.maxNamesPerNamespace`. */
const QUOTA = 250;
/** Look-ups that may begin before the names of a namespace are counted. */
const PARALLEL = 8;
/** Questions about a name in two look-ups: the second one asks for both families. Each is asked over UDP and TCP. */
const QUESTIONS = 6;

export const AMOUNT_ATTACKS: readonly Attack[] = [
  {
    name: "230 Ingresses of 1,000 hosts",
    by: "tenant",
    async run(stage) {
      for (let index = 0; index < MANY_INGRESSES; index += 1) {
        const hosts = Array.from({ length: HOSTS }, (_, host) => `${host}.crowd-${index}.example.com`);
        await createIngress(stage, `crowd-${index}`, hosts);
      }
      const first = await stage.spread();
      const { peak, readyMs } = await startAmong(stage);
      const second = await stage.spread();
      const { names } = await (await stage.system.leader()).status();
      const kept = names.filter(({ from }) => from.namespace === HOSTILE);
      assert.ok(kept.length <= 4 * QUOTA + 1, `${kept.length} claims of the tenant in the status`);
      await sweep(stage);
      return {
        tried: `${MANY_INGRESSES} Ingresses of ${HOSTS} hosts, and a controller that starts among them`,
        outcome:
          `a neighbour's new name was in its pods after ${seconds(first)} and ${seconds(second)}; ` +
          `${kept.length} claims kept; the new controller was ready after ${seconds(readyMs)}, peak ${peak} MiB`,
      };
    },
  },
  {
    name: "1,000 hosts of 6,300 addresses",
    by: "tenant",
    async run(stage) {
      await createService(stage, HOSTILE, OWN.name);
      await giveAddress(stage, `${services(HOSTILE)}/${OWN.name}`, { ip: OWN.ip });
      const hosts = Array.from({ length: HOSTS }, (_, host) => `${host}.${WIDE}`);
      await createIngress(stage, OWN.name, hosts, "elsewhere");
      await giveAddress(stage, `${ingresses(HOSTILE)}/${OWN.name}`, { ip: OWN.ip });
      await answered(stage, await stage.system.leader());
      const asked = stage.wideNames.size;
      assert.ok(asked <= QUOTA + PARALLEL, `${asked} names were looked up`);
      const first = await stage.spread();
      const { peak, readyMs } = await startAmong(stage, (spare) => answered(stage, spare));
      const second = await stage.spread();
      await sweep(stage);
      const { status } = await stage.tenant({ method: "DELETE", path: `${services(HOSTILE)}/${OWN.name}` });
      assert.equal(status, 200);
      return {
        tried: `an Ingress of ${HOSTS} hosts with 6,300 addresses each`,
        outcome:
          `a neighbour's new name was in its pods after ${seconds(first)} and ${seconds(second)}; ` +
          `${asked} names were looked up; the new controller was ready after ${seconds(readyMs)}, peak ${peak} MiB`,
      };
    },
  },
];

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

/** Waits until as many names as the tenant's quota has were looked up twice. */
async function answered({ wideNames }: Stage, controller: Replica): Promise<void> {
  wideNames.clear();
  const isKnown = () => {
    assert.equal(controller.process.exited, undefined);
    return [...wideNames.values()].filter((questions) => questions >= QUESTIONS).length >= QUOTA;
  };
  await until("two answers for each name that is looked up", isKnown, WIDE_MS);
}

/** Starts another controller, which lists everything, waits for it, and ends it again. Its peak memory is in MiB. */
async function startAmong(stage: Stage, settled = async (_: Replica) => {}) {
  const started = performance.now();
  const { spare, end } = await startSpare(stage);
  const readyMs = performance.now() - started;
  await settled(spare);
  const peak = Math.round(peakMemory(spare.process.pid) / 1024 / 1024);
  await end();
  const { controller = 0 } = stage.peaks();
  // In the profile small, the process has other parts too.
  const most = stage.profile === "default" ? MOST_MIB : Number.POSITIVE_INFINITY;
  assert.ok(Math.max(peak, controller) <= most, `the controllers took ${controller} and ${peak} MiB`);
  return { peak, readyMs };
}
