#!/usr/bin/env bash
# Writes the studio and the package as a static site, from what hosts/web/build.sh made.
#
#   hosts/web/site.sh                               into hosts/web/site
#   hosts/web/site.sh --base /lean/ --model URL     below a path of its host; models that the studio offers, as often as wanted
#   hosts/web/site.sh --publish pages               as a commit on a branch of this repository, which is not pushed
#   hosts/web/site.sh --publish pages --dry-run     says what would be in it
#
# Every reference in the site is relative, so the base matters only to the page at its root and to what is not found.
# Hosts of static pages send no isolation headers: there the package cancels through a URL instead of shared memory.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
dist=$root/hosts/web/dist
base=/ out=$root/hosts/web/site branch= dry= models=()

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }
while [ $# -gt 0 ]; do
  case $1 in
    --base) base=${2:?--base wants a path} && shift ;;
    --model) models+=("${2:?--model wants a URL}") && shift ;;
    --out) out=${2:?--out wants a folder} && shift ;;
    --publish) branch=${2:?--publish wants a branch} && shift ;;
    --dry-run) dry=1 ;;
    --help | -h) usage && exit ;;
    *) echo "site.sh: unknown option $1; --help lists them" >&2 && exit 2 ;;
  esac
  shift
done
case $base in /*/ | /) ;; *) echo "site.sh: --base $base: a path that begins and ends with /" >&2 && exit 2 ;; esac
case $base in *[!A-Za-z0-9/._~-]*) echo "site.sh: --base $base: letters, digits and - . _ ~ only" >&2 && exit 2 ;; esac
[ -f "$dist/engine/lean_web_bg.wasm" ] || { echo "site.sh: $dist is not built: run hosts/web/build.sh first" >&2 && exit 1; }

write_site() { # FOLDER
  mkdir -p "$1"
  cp -R "$dist/." "$1/"
  if [ ${#models[@]} -gt 0 ]; then
    node -e 'console.log(JSON.stringify(process.argv.slice(1).map((url) => ({ url }))))' -- "${models[@]}" > "$1/studio/models.json"
  fi
  : > "$1/.nojekyll"
  for page in index 404; do
    printf '<!doctype html><meta charset="utf-8"><title>lean</title><meta http-equiv="refresh" content="0; url=%sstudio/"><a href="%sstudio/">lean studio</a>\n' \
      "$base" "$base" > "$1/$page.html"
  done
}

temporary=$(mktemp -d)
worktree=$temporary/worktree
repository=${LEAN_SITE_REPOSITORY:-$root}
finish() {
  [ ! -e "$worktree" ] || git -C "$repository" worktree remove --force "$worktree"
  rm -rf "$temporary"
}
trap finish EXIT
site=$temporary/site
write_site "$site"

if [ -n "$dry" ]; then
  (cd "$site" && find . -type f | sort | sed 's|^\./||')
  echo "$(find "$site" -type f | wc -l) files, $(du -sk "$site" | cut -f1) KiB, below $base; nothing was written"
elif [ -n "$branch" ]; then
  git -C "$repository" check-ref-format --branch "$branch" > /dev/null || exit 2
  git -C "$repository" worktree add --quiet --detach "$worktree"
  if git -C "$repository" rev-parse --quiet --verify "refs/heads/$branch" > /dev/null; then
    git -C "$worktree" checkout --quiet "$branch"
    git -C "$worktree" rm -rq --ignore-unmatch .
  else
    git -C "$worktree" checkout --quiet --orphan "$branch"
    git -C "$worktree" rm -rqf --ignore-unmatch .
  fi
  cp -R "$site/." "$worktree/"
  # The repository ignores what is built; a site is just that.
  git -C "$worktree" add --all --force
  if git -C "$worktree" diff --cached --quiet; then
    echo "$branch is as it should be already"
  else
    git -C "$worktree" commit --quiet -m "The studio, of $(git -C "$repository" rev-parse --short HEAD)"
    echo "committed to $branch; git push REMOTE $branch publishes it"
  fi
else
  # Beside it first: whoever serves the old one never sees half of the new.
  fresh=$out.new
  rm -rf "$fresh"
  mkdir -p "$(dirname "$out")"
  cp -R "$site" "$fresh"
  rm -rf "$out"
  mv "$fresh" "$out"
  echo "$out: $(find "$out" -type f | wc -l) files, below $base"
fi
