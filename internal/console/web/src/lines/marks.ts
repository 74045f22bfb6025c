/** The rows, of as many as stand for all lines, in which a match is. lineOf is the first line of a place, matches grow. */
export function marksOf(matches: readonly number[], lines: number, rows: number, lineOf: (place: number) => number): number[] {
  const marked: number[] = []
  let at = 0
  for (let row = 0; row < rows && at < matches.length; row++) {
    const [from, to] = [row, row + 1].map((edge) => lineOf(Math.floor((edge * lines) / rows))) as [number, number]
    at = firstFrom(matches, from, at)
    if (at < matches.length && matches[at]! < Math.max(to, from + 1)) marked.push(row)
  }
  return marked
}

/** The first place, from low on, of a number that is at least n. */
function firstFrom(numbers: readonly number[], n: number, low: number): number {
  let high = numbers.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (numbers[middle]! < n) low = middle + 1
    else high = middle
  }
  return low
}
