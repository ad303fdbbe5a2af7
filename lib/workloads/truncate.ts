/**
 * Returns at most `maxLength` characters of a text from others. The result is a copy, because a slice would keep the
 * whole text in memory. If `maxLength` is longer than any valid text, an invalid text stays invalid.
 */
export function truncate<T extends string | undefined>(text: T, maxLength: number): T | string {
  return text === undefined || text.length <= maxLength ? text : Buffer.from(text.slice(0, maxLength)).toString();
}
