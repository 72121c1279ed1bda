#!/bin/sh
# Draws README's pictures: docs/pictures.sh QUICKSTART_REPORT FSYNC_REPORT BETRFS_REPORT POWER_CUT
# with Chromium, from report.html of `plumb run experiments/quickstart.toml`, of `plumb run
# experiments/linux/fsync-file-systems.toml` and of `plumb run experiments/betrfs/table3.toml`, and from a file with what README's `plumb crash` prints, its command above it.
# pngquant makes them smaller where it is.
set -eu
quickstart=$1 fsync=$2 betrfs=$3 power_cut=$4
docs=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
picture() { # NAME WIDTH HEIGHT, of $work/page.html
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
        --window-size="$2,$3" --screenshot="$work/$1" "file://$work/page.html"
    if command -v pngquant > /dev/null; then pngquant --force --output "$docs/$1" "$work/$1"; else cp "$work/$1" "$docs/$1"; fi
}
draw() { # REPORT NAME WIDTH HEIGHT CSS
    sed "s|</head>|<style>main { padding-top: 0.5rem; } .bar, nav, #theme { display: none !important; } $5</style></head>|" "$1" > "$work/page.html"
    picture "$2" "$3" "$4"
}
screen() { # TEXT NAME WIDTH HEIGHT
    {
        printf '<meta charset="utf-8"><body style="margin:0;background:#1d2430"><pre style="margin:0;padding:18px 22px;color:#dfe6ee;font:14px/1.45 monospace;white-space:pre-wrap">'
        sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g; s|^\$ .*|<b style="color:#8fd18b">&</b>|' "$1"
        printf '</pre>'
    } > "$work/page.html"
    picture "$2" "$3" "$4"
}
draw "$quickstart" report.png 1080 2060 ""
draw "$quickstart" request.png 1080 1370 "section:not(#request), header, main > h1, main > p, .facts, .lead, footer { display: none; }"
draw "$fsync" file-systems.png 1080 900 "nav, footer { display: none; }"
draw "$betrfs" betrfs.png 1080 500 "header, main > h1, main > p, .facts, .lead, .warning, footer, section:not(#sweep), #sweep > h2, #sweep table, .downloads, button { display: none !important; }"
screen "$power_cut" power-cut.png 1080 350
