import assert from "node:assert/strict";
import { test } from "node:test";
import type { Claim, Reason } from "#hostmap/types.ts";
import type { DnsDecision, ExpectedClaim, VerifyMode } from "./dnscheck/dns-decision.ts";
import { witness } from "./witness.ts";

// What the answers of ingress controllers and of the cluster's DNS make of a claim.

const NO_SERVICE = { code: "no-service", text: "no Service has its address" };
const LOST = { code: "port-lost", text: "its target has no port 80" };
const ELSEWHERE = { code: "dns-elsewhere", text: "a CDN" };
const OTHER = { code: "dns-other-target", text: "another Service", target: "internal" } as const;
const UNKNOWN = { code: "header-unknown", text: "not asked yet" };
const REFUSES = { code: "header-not-expected", text: "it refuses" };

const CLAIM: Claim = {
  hostname: "shop.example.com",
  target: "edge",
  from: { kind: "Ingress", namespace: "shop", name: "web" },
  created: "2026-01-01T00:00:00Z",
  publicAddresses: ["203.0.113.9"],
  warning: LOST,
};
/** The claims of the table: with a target, and without one. */
const CLAIMS = {
  edge: CLAIM,
  chosen: { ...CLAIM, chosen: true },
  "?": { ...CLAIM, target: NO_SERVICE, lacking: { byClass: undefined } },
  "? held": { ...CLAIM, target: NO_SERVICE, lacking: { byClass: undefined }, undecided: true, maybe: "edge" },
  refused: { ...CLAIM, target: { code: "ip-mode-proxy", text: "" } },
} satisfies Record<string, Claim>;

const SUBJECT = { name: "shop.example.com", key: "shop 0", namespace: "shop", isShared: false, held: undefined };

interface Setting {
  readonly mode?: VerifyMode;
  readonly isWaiting?: boolean;
  readonly isSettled?: boolean;
  readonly always?: boolean;
  readonly against?: Readonly<Record<string, Reason>>;
  readonly asksDns?: boolean;
}

/** What a claim becomes, and what DNS was asked about it: undefined if nothing. */
function hear(claim: Claim, decision: DnsDecision, setting: Setting = {}) {
  const { mode = "auto", isWaiting = false, isSettled = true, always = false, against = {}, asksDns = true } = setting;
  let asked: ExpectedClaim | undefined;
  let released = false;
  const dns = {
    askAbout(_subject: object, expected: ExpectedClaim) {
      asked = expected;
      return { decision, isWaiting, isSettled };
    },
    release() {
      released = true;
    },
  };
  const headers = { against: (target: string) => against[target] };
  const locations = { mapsAlways: () => always, warningOf: () => undefined };
  const heard = witness(claim, SUBJECT, { headers, locations, dns: asksDns ? dns : undefined, mode });
  assert.ok(!(released && asked), "either asked or released");
  return { heard, asked, released };
}

/** The target, with `!` if DNS leads there; or the reason, with `?` and the possible target if it is not decided. */
function shown({ target, verified, undecided, maybe }: Claim): string {
  if (typeof target === "string") return `${target}${verified ? "!" : ""}`;
  return `${target.code}${undecided ? ` ? ${maybe}` : ""}`;
}

const ENFORCE = { mode: "enforce" } as const;
const CASES: ReadonlyArray<readonly [keyof typeof CLAIMS, what: string, DnsDecision, string, Setting?]> = [
  ["edge", "is verified", "verified", "edge!"],
  ["edge", "has no evidence", "unknown", "edge"],
  ["edge", "is confirmed by an externalIP", "external", "edge"],
  ["edge", "leads to another target", OTHER, "internal!"],
  ["edge", "is absent", { code: "dns-absent", text: "" }, "edge"],
  ["edge", "leads elsewhere", ELSEWHERE, "dns-elsewhere"],
  ["edge", "leads elsewhere, not settled yet", ELSEWHERE, "dns-elsewhere ? edge", { isSettled: false }],
  ["edge", "leads elsewhere, map: always", ELSEWHERE, "edge", { always: true }],
  ["edge", "has no first answer yet", "unknown", "dns-not-verified ? edge", { isWaiting: true }],
  ["edge", "is not asked", ELSEWHERE, "edge", { asksDns: false }],
  ["chosen", "leads to another target", OTHER, "edge"],
  ["chosen", "leads elsewhere", ELSEWHERE, "dns-elsewhere"],
  ["?", "leads to a target", OTHER, "internal!"],
  ["?", "leads to a target, not settled yet", OTHER, "dns-other-target ? undefined", { isSettled: false }],
  ["?", "leads to the target of its class by an externalIP", { ...OTHER, chosen: true }, "internal"],
  ["?", "leads nowhere", "nowhere", "no-service"],
  ["? held", "is verified", "verified", "edge!"],
  ["? held", "has no evidence", "unknown", "no-service ? edge"],
  ["? held", "leads elsewhere", ELSEWHERE, "dns-elsewhere"],
  ["? held", "leads to a target, header open", OTHER, "header-unknown ? internal", { against: { internal: UNKNOWN } }],
  ["refused", "leads to another target", OTHER, "ip-mode-proxy"],
  ["edge", "is verified", "verified", "edge", ENFORCE],
  ["edge", "is confirmed by an externalIP", "external", "edge", ENFORCE],
  ["edge", "has no evidence", "unknown", "dns-not-verified ? edge", ENFORCE],
  ["edge", "leads to another target", OTHER, "dns-other-target", ENFORCE],
  ["edge", "leads elsewhere", ELSEWHERE, "dns-elsewhere", ENFORCE],
  ["?", "leads to a target", OTHER, "no-service", ENFORCE],
  ["edge", "leads elsewhere", ELSEWHERE, "edge", { mode: "warn" }],
  ["edge", "is verified, header not known", "verified", "header-unknown ? edge", { against: { edge: UNKNOWN } }],
  ["edge", "is verified, header refused", "verified", "header-not-expected", { against: { edge: REFUSES } }],
  ["edge", "leads to a target, header open", OTHER, "header-unknown ? internal", { against: { internal: UNKNOWN } }],
];
for (const [claim, what, decision, expected, setting = {}] of CASES) {
  test(`${setting.mode ?? "auto"}: a name of ${claim} ${what}: ${expected}`, () => {
    assert.equal(shown(hear(CLAIMS[claim], decision, setting).heard), expected);
  });
}

test("with warn or map: always, a mapped name has a warning of DNS, after one about its target", () => {
  const { warning: _lost, ...claim } = CLAIM;
  const warnings = [
    hear(claim, ELSEWHERE, { mode: "warn" }),
    hear(claim, ELSEWHERE, { always: true }),
    hear(CLAIM, ELSEWHERE, { mode: "warn" }),
  ].map(({ heard }) => heard.warning);
  assert.deepEqual(warnings, [ELSEWHERE, ELSEWHERE, LOST]);
});

test("a name that moves to another target has the warning of that one; the target of the object stays asked", () => {
  assert.deepEqual([hear(CLAIM, "verified").heard.warning, hear(CLAIM, OTHER).heard.warning], [LOST, undefined]);
  assert.equal(hear(CLAIM, "verified", { against: { edge: REFUSES } }).heard.maybe, "edge");
  const heard = [OTHER, ELSEWHERE].map((decision) => hear(CLAIM, decision).heard);
  assert.ok(heard.every(({ aim, maybe }) => aim === "edge" && maybe === undefined));
});
