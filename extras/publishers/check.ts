import type { AddedCheck } from "#doctor/added-checks.ts";
import { type Fact, readFact } from "#doctor/fact.ts";
import { type Finding, findingsOf } from "#doctor/findings.ts";
import type { Reason } from "#hostmap/types.ts";
import { settingsOf } from "#lib/config/sections.ts";
import { PUBLISHERS_SECTION, type PublishersSettings } from "./config.ts";
import type { PublisherState } from "./publisher-state.ts";
import { readPublisherStates } from "./publisher-state-store.ts";

const { ok, warning, broken, unknown } = findingsOf("cluster-dns");

const PAGE = "docs/publishers.md";
/** Sections of the configuration, by the name of the publisher. */
const SECTIONS = { "coredns-import": "corednsImport", coredns: "coredns", "external-dns": "externalDns" } as const;
/**
 * After this time, readers without the newest map are late. A kubelet updates a ConfigMap in its pods within 90
 * seconds, and CoreDNS reads it every 30 to 45 seconds.
 */
const LATE_MS = 300_000;

/** Checks what the publishers report about themselves, and whether it matches the configuration. */
export const PUBLISHERS_CHECK: AddedCheck = {
  async prepare({ client, namespace, config, now }) {
    const states = await readFact({ verb: "get", resource: "configmaps", namespace }, () =>
      readPublisherStates(client, namespace),
    );
    const settings = config && settingsOf(config, PUBLISHERS_SECTION);
    return () => publisherFindings({ publishers: states, settings, now });
  },
};

interface PublisherFacts {
  /** What each publisher reports about itself, by its name. */
  readonly publishers: Fact<ReadonlyMap<string, PublisherState | Reason>>;
  /** Undefined if they are not known, or there are none. */
  readonly settings: PublishersSettings | undefined;
  /** Milliseconds since 1970. */
  readonly now: number;
}

export function publisherFindings({ publishers, settings, now }: PublisherFacts): Finding[] {
  const isOn = (name: keyof typeof SECTIONS) => settings?.[SECTIONS[name]].enabled === true;
  const names = (Object.keys(SECTIONS) as (keyof typeof SECTIONS)[]).filter(isOn);
  if (!publishers.known) {
    return names.map((name) => unknown(`publisher ${name}`, publishers.reason.code, publishers.reason.text));
  }
  const states = publishers.value;
  const silent = names.filter((name) => !states.has(name));
  return [
    ...silent.map((name) =>
      warning(
        `publisher ${name}`,
        "publisher-silent",
        "it is switched on, and has reported nothing yet",
        `see the pod of the Deployment switchback-publisher-${name}`,
      ),
    ),
    ...[...states].map(([name, state]) =>
      settings !== undefined && Object.hasOwn(SECTIONS, name) && !isOn(name as keyof typeof SECTIONS)
        ? leftOver(name)
        : stateFinding(name, state, now),
    ),
    ...differing(states, now),
  ];
}

function leftOver(name: string): Finding {
  return warning(
    `publisher ${name}`,
    "publisher-left",
    "it is disabled, but its published names were not removed",
    `helm upgrade with publishers.remove=[${name}]`,
    `switchback publish ${name} --remove: ${PAGE}`,
  );
}

function stateFinding(name: string, state: PublisherState | Reason, now: number): Finding {
  const subject = `publisher ${name}`;
  if ("code" in state) return unknown(subject, state.code, state.text);
  const { problem, behindSince, names, leftOut, since, takenBack, stopped, leaving } = state;
  const see = `docs/codes.md, and ${PAGE}`;
  if (leaving !== undefined) return ok(subject, "extra-works", "what it has published is being taken out");
  if (problem !== undefined) {
    const report = stopped || names === 0 ? broken : warning;
    return report(subject, problem.code, problem.text, see);
  }
  if (behindSince !== undefined && now - behindSince > LATE_MS) {
    const minutes = Math.round((now - behindSince) / 60_000);
    const evidence = `readers have lacked the newest map for ${minutes} minutes`;
    return warning(subject, "publisher-behind", evidence, `the log of its pod, and that of CoreDNS; ${see}`);
  }
  const age = since === undefined ? "" : ` since ${new Date(since).toISOString()}`;
  const more = leftOut === 0 ? "" : `, without ${leftOut} others`;
  const last = takenBack.at(-1)?.by ?? "somebody";
  const taken = takenBack.length === 0 ? "" : `; taken back ${takenBack.length} time(s), last by ${last}`;
  return ok(subject, "extra-works", `${names} names in the ${state.place}${age}${more}${taken}`);
}

/** Publishers with different maps may answer a name differently. For some minutes after a change this is normal. */
function differing(states: ReadonlyMap<string, PublisherState | Reason>, now: number): Finding[] {
  const settled = [...states].flatMap(([name, state]) =>
    "code" in state || state.revision === undefined ? [] : [{ name, state }],
  );
  const [first, ...others] = settled;
  const other = others.find(({ state }) => state.revision !== first?.state.revision);
  if (first === undefined || other === undefined) return [];
  const newest = Math.max(first.state.publishedAt ?? 0, other.state.publishedAt ?? 0);
  if (now - newest < LATE_MS) return [];
  const evidence = `${first.name} and ${other.name} have different maps, so they may answer a name differently`;
  return [warning("publishers", "publishers-differ", evidence, "see the finding of each of them")];
}
