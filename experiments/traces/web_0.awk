# Makes web_0.csv: awk -f experiments/traces/web_0.awk > experiments/traces/web_0.csv
#
# 1,500 requests of a made-up small web server in the format of the MSR Cambridge
# traces: bursts of reads that mostly meet a few hot files, a log appended now and
# then. It is not a recording: every number comes from the generator below, so that
# the file may be shared and anyone can make it again (any awk, the same bytes).
function pick(below) {
    # Park and Miller's minimal standard generator: exact in a double.
    state = (state * 16807) % 2147483647
    return state % below
}
BEGIN {
    state = 20080101
    log_at = 40000000000
    for (request = 0; request < 1500; request++) {
        ms += pick(10) < 6 ? 1 + pick(25) : 100 + pick(900)
        kind = pick(100)
        if (kind < 72) {
            type = "Read"
            bytes = pick(4) == 0 ? 65536 : 8192
            # Hot: 64 files of 256 KiB; cold: anywhere in 60 GiB.
            if (pick(100) < 80)
                offset = 1073741824 + pick(64) * 262144 + pick(24) * 8192
            else
                offset = 2147483648 + pick(7864320) * 8192
        } else if (kind < 90) {
            type = "Write"
            bytes = 4096
            offset = log_at
            log_at += bytes
        } else {
            type = "Write"
            bytes = 16384
            offset = 1073741824 + pick(64) * 262144
        }
        # 100 ns since 1601 have more digits than a double: the seconds go apart.
        printf "%.0f%07d,web,0,%s,%.0f,%d,0\n", 12816637200 + int(ms / 1000), (ms % 1000) * 10000, type, offset, bytes
    }
}
