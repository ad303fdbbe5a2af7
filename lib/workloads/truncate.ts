/**
 * At most `maxLength` characters of a text that others wrote. The result is a copy: a slice would keep the whole text
 * in memory. A length that no valid text has keeps an invalid text invalid.
 */
export function truncate<T extends string | undefined>(text: T, maxLength: number): T | string {
  return text === undefined || text.length <= maxLength ? text : Buffer.from(text.slice(0, maxLength)).toString();
}
