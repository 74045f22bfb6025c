// Installs what the tests in examples need, and the packed package beside it, as npm would.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const run = (command, ...args) => execFileSync(command, args, { stdio: ['ignore', 'ignore', 'inherit'] })
const lock = readFileSync('examples/package-lock.json', 'utf8')
const stamp = 'examples/node_modules/.installed'
if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== lock) {
  run('npm', 'ci', '--silent', '--no-audit', '--no-fund', '--prefix', 'examples')
  writeFileSync(stamp, lock)
}
const { version } = JSON.parse(readFileSync('package.json', 'utf8'))
mkdirSync('build', { recursive: true })
run('npm', 'pack', '--silent', '--ignore-scripts', '--pack-destination', 'build')
const folder = 'examples/node_modules/reprise'
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
run('tar', '-xzf', join('build', `reprise-${version}.tgz`), '-C', folder, '--strip-components=1')
