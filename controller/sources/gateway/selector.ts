import { listOf, mapOf, textMapOf, textOf } from "../raw-object.ts";

export type Labels = Readonly<Record<string, string>>;

/**
 * Whether labels match a `LabelSelector` (meta/v1). An empty selector matches all labels. An unknown operator matches
 * no labels.
 */
export function matchesSelector(selector: unknown, labels: Labels): boolean {
  const { matchLabels, matchExpressions } = mapOf(selector);
  return (
    Object.entries(textMapOf(matchLabels)).every(([key, value]) => labelOf(labels, key) === value) &&
    listOf(matchExpressions).every((expression) => matchesExpression(expression, labels))
  );
}

function matchesExpression(expression: unknown, labels: Labels): boolean {
  const { key, operator, values } = mapOf(expression);
  const value = labelOf(labels, textOf(key) ?? "");
  switch (operator) {
    case "In":
      return value !== undefined && listOf(values).includes(value);
    case "NotIn":
      // As in Kubernetes, `In` does not match an object without the label.
      return value === undefined || !listOf(values).includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    default:
      return false;
  }
}

function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}
