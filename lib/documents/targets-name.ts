/**
 * The ConfigMap in which the controller publishes what the proxies relay and which ports they ask, and its key.
 */
export const TARGETS_NAME = "switchback-targets";
export const TARGETS_KEY = "targets.json";
