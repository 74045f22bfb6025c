# The SDKs that the scripts here use, and how they are installed: into ${XDG_CACHE_HOME:-~/.cache}/reprise, once.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/reprise/mcp-clients

# The newest versions on 2026-11-29.
declare -A package=(
  [typescript-1]=@modelcontextprotocol/sdk@1.32.2
  [typescript-2]=@modelcontextprotocol/client@2.4.0
  [python-1]=mcp==1.30.0
  [python-2]=mcp==2.3.0
  [fastmcp]=fastmcp==4.2.3
  [openai-agents]=openai-agents==0.24.0
  [langchain]=langchain-mcp-adapters==0.3.2
  [ai-sdk]=@ai-sdk/mcp@2.0.99
  [oidc-provider]=oidc-provider@9.13.3
)

folder() { # folder NAME: where a package is installed
  echo "$cache/$1-${package[$1]##*[@=]}"
}

fetch_package() { # fetch_package NAME: fails if it cannot be had
  local dir
  dir=$(folder "$1")
  [ ! -e "$dir/done" ] || return 0
  case ${package[$1]} in
  *==*) python3 -m venv "$dir" && timeout 300 "$dir/bin/pip" install --quiet --disable-pip-version-check "${package[$1]}" || return 1 ;;
  *) timeout 200 npm install --silent --no-audit --no-fund --prefix "$dir" "${package[$1]}" || return 1 ;;
  esac
  touch "$dir/done"
}
