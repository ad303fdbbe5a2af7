/** The ConfigMap in which the controller publishes what the proxies listen on, and its only key. */
export const TARGETS_NAME = "switchback-targets";
export const TARGETS_KEY = "targets.json";
