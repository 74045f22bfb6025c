/** A line of the Prometheus text format. */
export interface Sample {
  name: string
  labels: Record<string, string>
  value: number
}

/** Reads the Prometheus text format (version 0.0.4), as far as servers of ours write it. */
export function parseMetrics(text: string): Sample[] {
  const samples: Sample[] = []
  for (const line of text.split('\n')) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line)
    if (!match) continue
    const labels: Record<string, string> = {}
    for (const [, name, value] of (match[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[name!] = value!.replace(/\\(.)/g, (_, c: string) => (c === 'n' ? '\n' : c))
    }
    samples.push({ name: match[1]!, labels, value: Number(match[3]) })
  }
  return samples
}

/** The sum of a metric over all its labels, or over those that have some. */
export function sum(samples: Sample[], name: string, labels: Record<string, string> = {}): number {
  const wanted = Object.entries(labels)
  let total = 0
  for (const sample of samples) {
    if (sample.name === name && wanted.every(([key, value]) => sample.labels[key] === value)) total += sample.value
  }
  return total
}

/** The bound below which a share of what a histogram has counted lies; undefined if it has counted nothing. */
export function quantile(samples: Sample[], name: string, share: number): number | undefined {
  const buckets = samples
    .filter((sample) => sample.name === `${name}_bucket`)
    .map(({ labels, value }) => [labels.le === '+Inf' ? Number.POSITIVE_INFINITY : Number(labels.le), value] as const)
    .sort(([a], [b]) => a - b)
  const total = buckets.at(-1)?.[1] ?? 0
  if (total === 0) return undefined
  return buckets.find(([, value]) => value >= total * share)?.[0]
}
