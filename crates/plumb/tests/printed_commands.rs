//! Every command of README and docs is run as it is printed, in an empty folder, by a user without root and with an empty home,
//! unless it says that it needs root.
//!
//! A fenced block with lines that begin with `plumb` (or `$ plumb`, above what it prints) is a script for `sh -e`. A comment right
//! before a block says more of it; blocks of a page run one after the other in one folder:
//!
//! | comment | meaning |
//! |---|---|
//! | `<!-- file: NAME -->` | the block's text is put into this file, which can be run |
//! | `<!-- run: status N -->` | its last command ends with this status |
//! | `<!-- run: long -->` | takes minutes: in the long suite only |
//! | `<!-- run: never, WHY -->` | is not run: it needs what a test cannot have |
//! | `<!-- run: as PAGE -->` | is run with this page, which prints the same |
//! | `<!-- run: needs PROGRAM ... -->` | what must be installed; `root`, `fuse`, `kernel` (in virtual time), `order` (that with streams) |
//! | `<!-- run: in repository -->` | the folder has the repository's `experiments`, `devices` and `processors` |
//!
//! Words after `run:` are separated by semicolons. A page's comment `<!-- given: ... -->` is a script for `sh -e` that makes what
//! blocks after it need.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use linux_rig::PLUMB;

/// A command that is not over by then hangs.
const LIMIT: Duration = Duration::from_secs(600);
const LIMIT_LONG: Duration = Duration::from_secs(7200);

/// What a page asks for.
#[derive(Debug)]
enum Step {
    Given(String),
    File(String, String),
    Run { line: usize, script: String, how: How },
}

#[derive(Clone, Default, Debug, PartialEq)]
struct How {
    status: i32,
    is_long: bool,
    never: Option<String>,
    as_page: Option<String>,
    needs: Vec<String>,
    in_repository: bool,
}

impl How {
    fn read(words: &str) -> Self {
        let mut how = Self::default();
        if let Some(why) = words.strip_prefix("never, ") {
            how.never = Some(why.to_owned());
            return how;
        }
        for word in words.split(';').map(str::trim) {
            if let Some(status) = word.strip_prefix("status ") {
                how.status = status.parse().unwrap();
            } else if let Some(needs) = word.strip_prefix("needs ") {
                how.needs.extend(needs.split_whitespace().map(str::to_owned));
            } else if let Some(page) = word.strip_prefix("as ") {
                how.as_page = Some(page.to_owned());
            } else {
                match word {
                    "long" => how.is_long = true,
                    "in repository" => how.in_repository = true,
                    other => panic!("`run: {other}` is no word of a page"),
                }
            }
        }
        how
    }

    /// Why it is not run here.
    fn skipped(&self) -> Option<String> {
        if let Some(why) = &self.never {
            return Some(why.clone());
        }
        if self.is_long && std::env::var_os("PLUMB_LONG").is_none() {
            return Some("PLUMB_LONG".to_owned());
        }
        self.needs.iter().find_map(|need| {
            let is_there = match need.as_str() {
                "root" => is_root(),
                "fuse" => Path::new("/dev/fuse").exists(),
                "kernel" => linux_rig::kernel().is_some(),
                "order" => linux_rig::kernel_with_streams().is_some(),
                program => {
                    let folders = ["/usr/local/bin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"];
                    folders.iter().any(|folder| Path::new(folder).join(program).exists())
                }
            };
            (!is_there).then(|| format!("{need} is not here"))
        })
    }
}

/// The steps of a page, in its order.
fn steps(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut comment = String::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.starts_with("<!-- ") {
            let mut whole = line.to_owned();
            while !whole.contains("-->") {
                let Some((_, more)) = lines.next() else { break };
                whole = format!("{whole}\n{more}");
            }
            let inner = whole.trim_start_matches("<!--").trim_end().trim_end_matches("-->").trim();
            match inner.strip_prefix("given:") {
                Some(script) => steps.push(Step::Given(script.trim().to_owned())),
                None => comment = inner.to_owned(),
            }
            continue;
        }
        if line.starts_with("```") {
            let mut block = String::new();
            for (_, inner) in lines.by_ref().take_while(|(_, inner)| !inner.starts_with("```")) {
                block += inner;
                block.push('\n');
            }
            if let Some(name) = comment.strip_prefix("file:") {
                steps.push(Step::File(name.trim().to_owned(), block));
            } else if let Some(script) = script(&block) {
                let how = comment.strip_prefix("run:").map(|words| How::read(words.trim())).unwrap_or_default();
                steps.push(Step::Run { line: number + 1, script, how });
            }
        }
        if !line.is_empty() {
            comment.clear();
        }
    }
    steps
}

/// The commands of a block, without what they print; nothing where it has none of plumb's.
fn script(block: &str) -> Option<String> {
    let is_session = block.lines().any(|line| line.starts_with("$ "));
    let mut script = String::new();
    let mut goes_on = false;
    for line in block.lines() {
        let code = line.strip_prefix("$ ").filter(|_| is_session);
        if let Some(code) = code.or((goes_on || !is_session).then_some(line)) {
            script += code;
            script.push('\n');
            goes_on = code.ends_with('\\');
        }
    }
    script.lines().any(|line| line.starts_with("plumb ")).then_some(script)
}

/// Runs a script to its end; its status and what it said, nothing where it hangs.
fn shell(script: &str, folder: &Path, user: &User, limit: Duration) -> Option<(i32, String)> {
    let said = folder.join(".said");
    let file = || Stdio::from(std::fs::File::options().create(true).append(true).open(&said).unwrap());
    let _ = std::fs::remove_file(&said);
    let mut command = user.command("sh", folder);
    // A process group of its own, which can be ended whole.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.args(["-ec", script]).stdin(Stdio::null()).stdout(file()).stderr(file());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status.code().unwrap_or(-1));
        }
        if begun.elapsed() > limit {
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // What it left behind, too.
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).stderr(Stdio::null()).status();
    let _ = child.wait();
    let text = String::from_utf8_lossy(&std::fs::read(&said).unwrap_or_default()).into_owned();
    status.map(|status| (status, text))
}

/// Who runs commands.
enum User {
    /// Who runs the tests.
    Caller,
    /// A user without rights, whose home has nothing but the kernels that `plumb linux` would build.
    Nobody { home: tempfile::TempDir, program: PathBuf },
}

impl User {
    /// Somebody without root, as whom root can run a command.
    fn without_root() -> Self {
        if !is_root() {
            return Self::Caller;
        }
        let home = tempfile::tempdir().unwrap();
        let kernels = home.path().join(".cache/plumb/linux");
        std::fs::create_dir_all(&kernels).unwrap();
        for kernel in [linux_rig::kernel(), linux_rig::kernel_with_streams()].into_iter().flatten() {
            copy(kernel.program().parent().unwrap(), &kernels);
        }
        let at = home.path().to_owned();
        let mut user = Self::Nobody { home, program: PLUMB.into() };
        user.owns(&at);
        let can = |user: &Self, program: &str, argument: &str| {
            let mut tried = user.command(program, Path::new("/"));
            tried.arg(argument).stdout(Stdio::null()).stderr(Stdio::null());
            tried.status().is_ok_and(|status| status.success())
        };
        if !can(&user, "true", "") {
            println!("skipped: nothing is run without root: setpriv does not make root of this machine nobody");
            return Self::Caller;
        }
        // The folder of the program may be closed to others.
        if !can(&user, PLUMB, "--version")
            && let Self::Nobody { program, .. } = &mut user
        {
            *program = at.join("bin/plumb");
            std::fs::create_dir(at.join("bin")).unwrap();
            std::fs::copy(PLUMB, &program).unwrap();
            user.owns(&at);
        }
        user
    }

    /// A program to run in a folder.
    fn command(&self, program: &str, folder: &Path) -> Command {
        let mut command = match self {
            Self::Caller => Command::new(program),
            Self::Nobody { home, .. } => {
                let mut command = Command::new("setpriv");
                // Programs that are root's for everybody, as fusermount3 is, stay so.
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--"]);
                command.arg(program).env("HOME", home.path());
                for of_root in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"] {
                    command.env_remove(of_root);
                }
                command
            }
        };
        let beside = match self {
            Self::Caller => Path::new(PLUMB).parent().unwrap(),
            Self::Nobody { program, .. } => program.parent().unwrap(),
        };
        let path = format!("{}:/usr/local/bin:/usr/sbin:/sbin:/usr/bin:/bin", beside.display());
        command.current_dir(folder).env("PATH", path);
        command
    }

    /// Gives it a folder with all that is in it.
    fn owns(&self, folder: &Path) {
        if let Self::Nobody { .. } = self {
            let given = Command::new("chown").args(["-R", "65534:65534", "--"]).arg(folder).status();
            assert!(given.is_ok_and(|status| status.success()), "{}", folder.display());
        }
    }
}

/// Whether all may read and write it.
fn is_for_everybody(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|about| about.permissions().mode() & 0o666 == 0o666)
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|about| std::os::unix::fs::MetadataExt::uid(&about) == 0)
}

/// A copy of a folder in another.
fn copy(folder: &Path, into: &Path) {
    let copied = Command::new("cp").args(["-r", "--"]).arg(folder).arg(into).status();
    assert!(copied.is_ok_and(|status| status.success()), "{}", folder.display());
}

/// Whether a page has exactly these commands and runs them.
fn is_run_by(page: &Path, wanted: &str) -> bool {
    steps(&std::fs::read_to_string(page).unwrap()).iter().any(|step| {
        matches!(step, Step::Run { script, how, .. } if script == wanted && how.never.is_none() && how.as_page.is_none())
    })
}

/// Runs a page; what is wrong with it.
fn run(page: &Path) -> Vec<String> {
    let name = page.file_name().unwrap().to_string_lossy().into_owned();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let caller = User::Caller;
    let usual = User::without_root();
    let mut wrong = Vec::new();
    let mut ran = 0;
    let mut skipped: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for step in steps(&std::fs::read_to_string(page).unwrap()) {
        match step {
            Step::File(file, text) => {
                let path = folder.path().join(file);
                std::fs::write(&path, text).unwrap();
                std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
            }
            Step::Given(script) => {
                usual.owns(folder.path());
                let (status, said) = shell(&script, folder.path(), &usual, LIMIT).unwrap();
                assert_eq!(status, 0, "{name}: {script}\n{said}");
            }
            Step::Run { line, script, how } => {
                if let Some(other) = &how.as_page {
                    let is_there = is_run_by(&self::page(other), &script);
                    wrong.extend((!is_there).then(|| format!("{name}:{line}: {other} does not run this:\n{script}")));
                    continue;
                }
                if let Some(why) = how.skipped() {
                    *skipped.entry(why).or_default() += 1;
                    continue;
                }
                for shared in ["experiments", "devices", "processors"] {
                    if how.in_repository && !folder.path().join(shared).exists() {
                        copy(&root.join(shared), folder.path());
                    }
                }
                let needs = |what: &str| how.needs.iter().any(|need| need == what);
                let is_closed = needs("fuse") && !is_for_everybody(Path::new("/dev/fuse"));
                if is_closed {
                    println!("skipped: {name}:{line} without root: /dev/fuse is root's alone here");
                }
                let user = if needs("root") || is_closed { &caller } else { &usual };
                user.owns(folder.path());
                ran += 1;
                let limit = if how.is_long { LIMIT_LONG } else { LIMIT };
                match shell(&script, folder.path(), user, limit) {
                    Some((status, _)) if status == how.status => {}
                    Some((status, said)) => {
                        let end: String = said
                            .lines()
                            .rev()
                            .take(30)
                            .collect::<Vec<_>>()
                            .into_iter()
                            .rev()
                            .collect::<Vec<_>>()
                            .join("\n");
                        wrong.push(format!("{name}:{line}: status {status} and not {}:\n{script}\n{end}", how.status));
                    }
                    None => wrong.push(format!("{name}:{line}: not over after {} s:\n{script}", limit.as_secs())),
                }
            }
        }
    }
    for (why, count) in skipped {
        println!("skipped: {count} blocks of commands of {name}: {why}");
    }
    println!("{name}: {ran} blocks of commands were run");
    wrong
}

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// One test for each page, so that they run side by side and each is named.
macro_rules! pages {
    ($($test:ident: $page:literal),* $(,)?) => {
        const PAGES: &[&str] = &[$($page),*];
        $(
            #[test]
            fn $test() {
                let wrong = run(&page($page));
                assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
            }
        )*
    };
}

pages! {
    readme: "README.md",
    apps: "docs/apps.md",
    calibrate: "docs/calibrate.md",
    charged_time: "docs/charged-time.md",
    crash: "docs/crash.md",
    crossprefetch: "docs/crossprefetch.md",
    defrag: "docs/defrag.md",
    experiments: "docs/experiments.md",
    for_administrators: "docs/for-administrators.md",
    for_database_authors: "docs/for-database-authors.md",
    for_kernel_developers: "docs/for-kernel-developers.md",
    for_researchers: "docs/for-researchers.md",
    fragpicker_study: "docs/fragpicker-study.md",
    fs: "docs/fs.md",
    host_truth: "docs/host-truth.md",
    kv: "docs/kv.md",
    linux: "docs/linux.md",
    opimq: "docs/opimq.md",
    betrfs: "docs/betrfs.md",
    prefetch: "docs/prefetch.md",
    validate: "docs/validate.md",
}

#[test]
fn a_page_says_how_its_blocks_are_run() {
    let text = "<!-- file: a.sh -->\n```\necho a\n```\n\ntext `plumb`\n\n<!-- run: status 1; needs root sh; long -->\n```sh\n$ plumb a \\\n    b\nprinted\n$ ls\n```\n\
                <!-- given: one\ntwo -->\n```\nls\n```\n```\nplumb c\n```\n";
    let steps = steps(text);
    let [
        Step::File(name, file),
        Step::Run { script, how, .. },
        Step::Given(given),
        Step::Run { script: other, how: plain, .. },
    ] = steps.as_slice()
    else {
        panic!("{steps:?}");
    };
    assert_eq!((name.as_str(), file.as_str(), given.as_str()), ("a.sh", "echo a\n", "one\ntwo"));
    assert_eq!((script.as_str(), other.as_str()), ("plumb a \\\n    b\nls\n", "plumb c\n"));
    let needs = vec!["root".to_owned(), "sh".to_owned()];
    assert_eq!(how, &How { status: 1, is_long: true, needs, ..How::default() });
    assert_eq!(plain, &How::default());
}

#[test]
fn every_page_with_commands_is_run() {
    let root = page("");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    for path in docs.filter(|path| path.extension().is_some_and(|end| end == "md")).chain([root.join("README.md")]) {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        let has_commands =
            steps(&std::fs::read_to_string(&path).unwrap()).iter().any(|step| matches!(step, Step::Run { .. }));
        assert!(
            !has_commands || PAGES.contains(&name.as_str()),
            "{name} has commands that no test runs: add it to the list"
        );
    }
}
