//! Programs whose tasks meet in writeback, fsync and commits, and what is there before.

/// Free blocks that hold what no file may show.
pub const OLD: &str = "yes OLD | head -c 20000000 > old; sync; rm old; sync";

/// A file of 96 blocks, that is written over: one task has writeback begun of all of it, and another syncs it.
pub const OVERWRITTEN: &str = "head -c 393216 /dev/zero > common; sync";
pub const BEGUN_AND_SYNCED: &str = r#"
perl -e 'open(F, "+<", "common") or die $!;
    for $r (1 .. 12) {
        for $b (0 .. 63) { sysseek(F, $b << 12, 0); syswrite(F, sprintf("A %d %d ....\n", $r, $b) x 500, 4096); }
        syscall(277, fileno(F), 0, 0, 2);
    }' &
perl -e 'use IO::Handle; open(F, "+<", "common") or die $!;
    for $r (1 .. 12) {
        sysseek(F, (64 + $r) << 12, 0); syswrite(F, sprintf("B %d ........\n", $r) x 500, 4096); F->sync or die $!;
    }' &
wait"#;

/// One task makes files of many blocks and syncs them, another makes a file longer and syncs that.
pub const GROWING: &str = r#"
perl -e 'use IO::Handle;
    for $r (1 .. 16) { open(F, ">", "grows$r") or die $!; syswrite(F, sprintf("G %4d ........\n", $r) x 10240, 163840); F->sync or die $!; close F; }' &
perl -e 'use IO::Handle; for $r (1 .. 40) { open(F, ">>", "other"); syswrite(F, sprintf("O %4d ........\n", $r) x 256); F->sync or die $!; close F; }' &
wait"#;

/// One task writes files past the page cache, another has commits made.
pub const DIRECT: &str = r#"
for i in 1 2 3 4 5 6; do
    perl -e 'print "direct $ARGV[0] ...\n" x 8192' $i | dd of=direct$i bs=16384 count=4 oflag=direct iflag=fullblock status=none
    echo x >> other; sync other
done &
perl -e 'use IO::Handle; for $r (1 .. 25) { open(F, ">>", "log"); syswrite(F, sprintf("O %4d ........\n", $r) x 256); F->sync or die $!; close F; }' &
wait"#;

/// A disk with four blocks left, and what frees them holds what no file may show.
pub const NEARLY_FULL: &str = r#"for r in /sys/fs/ext4/*/reserved_clusters; do echo 0 > $r; done
yes OLD | head -c 100000000 > old || true; sync; rm old; sync
: > grows; head -c 4096 /dev/zero > other; sync
n=$(stat -f -c %f .); fallocate -l $(((n - 30) * 4096)) filler; sync
for i in $(seq 30); do [ $(stat -f -c %f .) -le 4 ] || fallocate -l 4096 filler$i; done; sync; [ $(stat -f -c %f .) = 4 ]"#;

/// One task takes all four, each time anew, with one write a block; another has commits made. Where the third block is reserved and not
/// allocated yet, ext4 has no room to reserve for the fourth: it is allocated when it is written, as without delayed allocation
/// (ext4_nonda_switch()). Each time that it was is a line that is acknowledged in the end.
pub const LAST_BLOCKS: &str = r#"
for r in /sys/fs/ext4/*/reserved_clusters; do echo 0 > $r; done
echo 1 > /sys/kernel/tracing/events/ext4/ext4_write_begin/enable
perl -e 'use IO::Handle; open(F, "+<", "grows") or die $!;
    for $r (1 .. 30) {
        truncate(F, 0); F->sync or die $!; sysseek(F, 0, 0);
        for (1 .. 4) { syswrite(F, sprintf("G %4d ........
", $r) x 256, 4096) or die $!; }
        F->sync or die $!;
    }' &
perl -e 'use IO::Handle; open(F, "+<", "other") or die $!; for $r (1 .. 120) { chmod(0600 + $r % 2, "other"); F->sync or die $!; }' &
wait
grep ": ext4_write_begin" /sys/kernel/tracing/trace | while read line; do echo $line > $PLUMB_ACKNOWLEDGE; done"#;

/// A file of 4 MiB, large parts of which are written over.
pub const LARGE: &str = "head -c 4194304 /dev/zero > common; sync";

/// One task has commits of many blocks made; another makes a file longer, which without delayed allocation is part of the next of them,
/// overwrites much of what is there once that is under way, and syncs the data: nothing is left of it to commit.
pub const MET_BY_A_COMMIT: &str = r#"
perl -e 'open(D, "<", ".") or die $!;
    for $r (1 .. 24) {
        for $i (1 .. 100) { mkdir "d$i" or die $!; }
        syscall(74, fileno(D)) == 0 or die $!;
        for $i (1 .. 100) { rmdir "d$i" or die $!; }
    }' &
perl -e 'open(F, "+<", "common") or die $!;
    for $r (1 .. 24) {
        sysseek(F, 0, 2); syswrite(F, sprintf("L %4d ........\n", $r) x 256, 4096);
        select(undef, undef, undef, 0.00009 * ($r * 7 % 24));
        sysseek(F, 0, 0); syswrite(F, sprintf("B %4d ........\n", $r) x 131072, 2097152);
        syscall(75, fileno(F)) == 0 or die $!;
    }' &
wait"#;

/// The same for as long as the other task is at it, and each commit relies on what was written past the page cache, so that it is made
/// without order. The other task meets it within a millisecond, while its blocks are on their way.
pub const MET_BY_A_COMMIT_WITHOUT_ORDER: &str = r#"
n=0
while ! [ -e over ]; do
    n=$((n + 1))
    dd if=/dev/zero of=direct$n bs=4096 count=1 oflag=direct status=none
    perl -e 'open(D, "<", ".") or die $!;
        for $i (1 .. 60) { mkdir "d$i" or die $!; }
        syscall(74, fileno(D)) == 0 or die $!;
        for $i (1 .. 60) { rmdir "d$i" or die $!; }'
done &
perl -e 'open(F, "+<", "common") or die $!;
    for $r (1 .. 24) {
        sysseek(F, 0, 2); syswrite(F, sprintf("L %4d ........\n", $r) x 256, 4096);
        select(undef, undef, undef, 0.00004 * ($r * 7 % 24));
        sysseek(F, 0, 0); syswrite(F, sprintf("B %4d ........\n", $r) x 131072, 2097152);
        syscall(75, fileno(F)) == 0 or die $!;
    }
    open(O, ">", "over") or die $!;' &
wait"#;

/// Much is written over, and its data synced: there is nothing to commit.
pub const OVERWRITTEN_AT_ONCE: &str = r#"
perl -e 'open(F, "+<", "common") or die $!;
    for $r (1 .. 12) {
        sysseek(F, 0, 0); syswrite(F, sprintf("B %4d ........\n", $r) x 65536, 1048576);
        syscall(75, fileno(F)) == 0 or die $!;
    }'"#;

/// Files of which writeback is begun and not waited for, and commits of what they are made of.
pub const WRITTEN_BACK: &str = r#"
perl -e 'use IO::Handle; open(L, ">>", "log") or die $!;
    for $r (1 .. 24) {
        open(F, ">", "w$r") or die $!; syswrite(F, sprintf("W %4d ........\n", $r) x 8192, 131072); syscall(277, fileno(F), 0, 0, 2); close F;
        syswrite(L, sprintf("L %4d ........\n", $r)); L->sync or die $!;
    }'"#;

/// Preallocated files of eight blocks, of which one is written: the others are zeroed.
pub const PREALLOCATED: &str = r#"
perl -e 'use IO::Handle;
    for $r (1 .. 30) {
        open(F, "+>", "p$r") or die $!; syscall(285, fileno(F), 0, 0, 32768) == 0 or die $!;
        sysseek(F, 12288, 0); syswrite(F, sprintf("P %4d ........\n", $r) x 256, 4096); F->sync or die $!; close F;
    }'"#;

/// Many commits, of folders that nothing changes any more; all that they changed is written in its place, and one more.
pub const CUT_OFF: &str = r#"
perl -e 'use IO::Handle; open(D, "<", ".") or die $!; open(L, ">>", "log") or die $!;
    for $r (1 .. 6) {
        for $i (1 .. 60) { mkdir "d$r-$i" or die $!; syscall(74, fileno(D)) == 0 or die $!; }
        syscall(162);
        syswrite(L, sprintf("L %4d ........\n", $r) x 256, 4096); L->sync or die $!;
    }'"#;

/// Two files of a block. Their blocks are written over with the number of a round, and a barrier is between the first and the second.
pub const TWO_BLOCKS: &str = "for f in a b; do head -c 4096 /dev/zero > $f; done; sync";

/// The second is of no later round than the first.
pub const IN_ORDER: &str = "n() { head -c 6 $1 | tr -dc 0-9; }; a=$(n a) b=$(n b)
    [ ${b:-0} -le ${a:-0} ] || { echo round $b without round ${a:-0}; exit 1; }";

/// What is before the barrier is on its way already when it is asked for, so that it has no write that could end the epoch, and nothing
/// to commit.
pub const BARRIER_ALONE: &str = r#"
perl -e 'open(A, "+<", "a") or die $!; open(B, "+<", "b") or die $!;
    for $r (1 .. 40) {
        sysseek(A, 0, 0); syswrite(A, sprintf("A %4d ........
", $r) x 273, 4096); syscall(277, fileno(A), 0, 0, 2);
        syscall(75, fileno(A)) == 0 or die $!;
        sysseek(B, 0, 0); syswrite(B, sprintf("B %4d ........
", $r) x 273, 4096); syscall(277, fileno(B), 0, 0, 2);
        select(undef, undef, undef, 0.0003);
    }'"#;

/// The same, and the file became longer before, which another barrier has committed: that commit's record is on its way, its flush is not
/// done, and the epoch that it ended is an earlier one.
pub const BARRIER_MEETS_A_COMMIT: &str = r#"
perl -e 'open(A, "+<", "a") or die $!; open(B, "+<", "b") or die $!;
    for $r (1 .. 40) {
        sysseek(A, 0, 2); syswrite(A, sprintf("L %4d ........
", $r) x 273, 4096); syscall(75, fileno(A)) == 0 or die $!;
        sysseek(A, 0, 0); syswrite(A, sprintf("A %4d ........
", $r) x 273, 4096); syscall(277, fileno(A), 0, 0, 2);
        syscall(75, fileno(A)) == 0 or die $!;
        sysseek(B, 0, 0); syswrite(B, sprintf("B %4d ........
", $r) x 273, 4096); syscall(277, fileno(B), 0, 0, 2);
        select(undef, undef, undef, 0.005);
    }'"#;

/// Preallocated files of eight blocks in a folder that is encrypted, of which one is written: the others are zeroed, which is to write
/// what zeroes are when they are encrypted.
pub const PREALLOCATED_ENCRYPTED: &str = r#"
perl -e 'use IO::Handle; mkdir "e" or die $!; open(D, "<", "e") or die $!;
    my $key = pack("L L x32 L L x32 a64", 2, 0, 64, 0, join("", map { chr } 1 .. 64));
    ioctl(D, 0xc0506617, $key) or die "FS_IOC_ADD_ENCRYPTION_KEY: $!";
    my $policy = pack("C C C C C x3 a16", 2, 1, 4, 2, 0, substr($key, 8, 16));
    ioctl(D, 0x800c6613, $policy) or die "FS_IOC_SET_ENCRYPTION_POLICY: $!";
    for $r (1 .. 20) {
        open(F, "+>", "e/p$r") or die $!; syscall(285, fileno(F), 0, 0, 32768) == 0 or die $!;
        sysseek(F, 12288, 0); syswrite(F, sprintf("P %4d ........
", $r) x 256, 4096); F->sync or die $!; close F;
    }'"#;

/// No encrypted file has a block with lines of what was there before, looked at without the key.
pub const NOTHING_OLD: &str = r#"debugfs -R "ls -l /e" $PLUMB_DEVICE 2> /dev/null | awk '$2 ~ /^100/ { print "cat <" $1 ">" }' > /tmp/cats
    ! debugfs -f /tmp/cats $PLUMB_DEVICE 2> /dev/null | grep -aqx OLD || { echo a file shows what was there; exit 1; }"#;

/// Three tasks that each put a new file in the place of an old one, and synchronise both file and folder.
pub const REPLACED: &str = r#"
for t in 1 2 3; do
    perl -e 'use IO::Handle; $t = shift; open(D, "<", ".");
        for $r (1 .. 20) {
            open(F, ">", "n$t") or die $!; syswrite(F, sprintf("R %d %5d ......\n", $t, $r) x 2340, 40960); F->sync or die $!; close F;
            rename("n$t", "f$t"); syscall(74, fileno(D)) == 0 or die $!;
        }' $t &
done; wait"#;

/// Inserts of 60,000 bytes, with a rollback journal that is synchronised with its folder.
pub const TABLE: &str = r#"sqlite3 db "pragma journal_mode=delete; create table t(i integer primary key, v text)""#;
pub const INSERTS: &str = r#"
{ echo "pragma synchronous=extra;"; for i in $(seq 30); do echo "insert into t values($i, hex(randomblob(30000)));"; done; } | sqlite3 db"#;
