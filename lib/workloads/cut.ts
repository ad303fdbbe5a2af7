/**
 * At most `most` characters of a text that others wrote, as a text of its own: a slice would keep the whole of it
 * in memory. Cut at more than anything valid has, it stays invalid.
 */
export function cut<T extends string | undefined>(text: T, most: number): T | string {
  return text === undefined || text.length <= most ? text : Buffer.from(text.slice(0, most)).toString();
}
