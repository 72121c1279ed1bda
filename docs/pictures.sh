#!/bin/sh
# Draws docs/report.png and docs/request.png: docs/pictures.sh results/quickstart-.../report.html
# with Chromium, from the report of `plumb run experiments/quickstart.toml`; pngquant makes them smaller where it is.
set -eu
report=$1
docs=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
draw() { # NAME WIDTH HEIGHT CSS
    sed "s|</head>|<style>main { padding-top: 0.5rem; } .bar, nav, #theme { display: none !important; } $4</style></head>|" "$report" > "$work/page.html"
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
        --window-size="$2,$3" --screenshot="$work/$1" "file://$work/page.html"
    if command -v pngquant > /dev/null; then pngquant --force --output "$docs/$1" "$work/$1"; else cp "$work/$1" "$docs/$1"; fi
}
draw report.png 1080 2060 ""
draw request.png 1080 1370 "section:not(#request), header, main > h1, main > p, .facts, .lead, footer { display: none; }"
