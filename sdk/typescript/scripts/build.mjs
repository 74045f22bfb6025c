// Builds dist: ES modules and CommonJS, with their declarations. tsconfig.web.json checks that all but one module use web
// standards alone.
import { execFileSync } from 'node:child_process'
import { copyFileSync, rmSync, writeFileSync } from 'node:fs'

rmSync('dist', { recursive: true, force: true })
for (const project of ['tsconfig.json', 'tsconfig.cjs.json', 'tsconfig.web.json']) {
  execFileSync('node_modules/.bin/tsc', ['-p', project], { stdio: 'inherit' })
}
writeFileSync('dist/cjs/package.json', '{ "type": "commonjs" }\n')
copyFileSync('../../LICENSE', 'LICENSE')
