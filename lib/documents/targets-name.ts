/**
 * The ConfigMap in which the controller publishes the proxies' listeners and their questions to the ingress
 * controllers, and its keys.
 */
export const TARGETS_NAME = "switchback-targets";
export const TARGETS_KEY = "targets.json";
export const QUESTIONS_KEY = "questions.json";
