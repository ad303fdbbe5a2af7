import type { Delivery, DeliveryToPod } from "#webhook/delivery.ts";

/** A delivery that changes only a pod's `spec.given`. Its code is `given`. */
export function fakeDelivery(changes: Partial<Delivery> = {}, toPod: Partial<DeliveryToPod> = {}): Delivery {
  return {
    name: "dns",
    code: "given",
    annotation: "switchback.dev/given",
    read: (_admitted, { hostAliases }) => ({
      give: () => ({
        injection: {
          userAliases: hostAliases,
          managed: { aliases: [], annotations: { "switchback.dev/given": "all" } },
        },
        changes: [{ op: "add", path: "/spec/given", value: "all" }],
      }),
      takeBack: () => [{ op: "remove", path: "/spec/given" }],
      ...toPod,
    }),
    readinessLine: () => undefined,
    addMetrics() {},
    async stop() {},
    ...changes,
  };
}
