//! What is in a file system that is not mounted.

use std::process::ExitCode;

use betrfs::{Attributes, Cookie, InodeNumber, Kind, Name, Operations, Timestamp, Volume};
use clap::Args;
use serde_json::{Value, json};
use units::{ByteSize, printable};

use super::super::Done;
use super::image::ImageFlags;
use crate::failure::Failure;
use crate::terminal::print_table;

#[derive(Args)]
pub struct DfArguments {
    #[command(flatten)]
    image: ImageFlags,
    /// Print an object
    #[arg(long)]
    json: bool,
}

/// Says how much room there is.
pub fn df(arguments: &DfArguments) -> Done {
    let volume = arguments.image.open()?;
    let statistics = volume.statfs().map_err(|error| arguments.image.fault(&error))?;
    let bytes = |blocks: u64| blocks * u64::from(statistics.block_bytes);
    let (size, free) = (bytes(statistics.blocks), bytes(statistics.free_blocks));
    let available = bytes(statistics.available_blocks);
    if arguments.json {
        println!(
            "{}",
            json!({
                "size_bytes": size,
                "used_bytes": size - free,
                "free_bytes": free,
                "available_bytes": available,
                "inodes": statistics.inodes,
                "free_inodes": statistics.free_inodes,
                "schema": volume.schema().name(),
            })
        );
        return Ok(ExitCode::SUCCESS);
    }
    let row = |what: &str, bytes| vec![what.to_owned(), ByteSize(bytes).to_string()];
    let schema = vec!["schema".to_owned(), volume.schema().name().to_owned()];
    let rows = [row("size", size), row("used", size - free), row("available", available), schema];
    print_table(&["what", "how much"], &rows);
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub struct StatArguments {
    #[command(flatten)]
    image: ImageFlags,
    /// A path in it
    #[arg(value_name = "PATH", default_value = "/")]
    path: String,
    /// Print an object
    #[arg(long)]
    json: bool,
}

/// Says what is known of a file.
pub fn stat(arguments: &StatArguments) -> Done {
    let volume = arguments.image.open()?;
    let mut attributes = volume.getattr(InodeNumber::ROOT).map_err(|error| arguments.image.fault(&error))?;
    for name in arguments.path.split('/').filter(|name| !name.is_empty()) {
        let found = Name::new(name.as_bytes()).and_then(|name| volume.lookup(attributes.inode, name));
        attributes = found.map_err(|error| {
            let (image, path) = (arguments.image.image.display(), &arguments.path);
            Failure::Machine(format!("{image}: {path}: {name}: {error}; `plumb fs dump {image}` lists what is there"))
        })?;
    }
    let mut object = object(&arguments.path, &attributes);
    object["schema"] = volume.schema().name().into();
    if arguments.json {
        println!("{object}");
    } else if let Value::Object(fields) = object {
        let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let rows: Vec<_> = fields.into_iter().map(|(name, value)| vec![name.replace('_', " "), text(value)]).collect();
        print_table(&["what", "value"], &rows);
    }
    Ok(ExitCode::SUCCESS)
}

/// What is known of a file, by name.
fn object(path: &str, attributes: &Attributes) -> Value {
    let time = |time: Timestamp| format!("{}.{:09}", time.seconds, time.nanoseconds);
    json!({
        "path": path,
        "inode": attributes.inode.0,
        "kind": kind(attributes.kind),
        "permissions": format!("{:04o}", attributes.permissions.bits()),
        "links": attributes.links,
        "uid": attributes.uid,
        "gid": attributes.gid,
        "size_bytes": attributes.size_bytes,
        "blocks": attributes.blocks,
        "accessed": time(attributes.accessed),
        "modified": time(attributes.modified),
        "changed": time(attributes.changed),
        "created": time(attributes.created),
    })
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::CharacterDevice => "character device",
        Kind::BlockDevice => "block device",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
    }
}

#[derive(Args)]
pub struct DumpArguments {
    #[command(flatten)]
    image: ImageFlags,
    /// The store below instead: every node, run and block
    #[arg(long)]
    store: bool,
    /// Print objects
    #[arg(long, conflicts_with = "store")]
    json: bool,
}

/// Lists every path with what is known of it, folder by folder; changes nothing but what recovery does.
pub fn dump(arguments: &DumpArguments) -> Done {
    if arguments.store {
        let file = super::image::file(&arguments.image.image, None)?;
        let dumped = betree::dump(file, false, |line| println!("{line}"));
        dumped.map_err(|error| Failure::Machine(format!("{}: {error}", arguments.image.image.display())))?;
        return Ok(ExitCode::SUCCESS);
    }
    let volume = arguments.image.open()?;
    let mut folders = vec![(String::new(), InodeNumber::ROOT)];
    while let Some((folder, inode)) = folders.pop() {
        for (name, attributes) in names(&volume, inode).map_err(|error| arguments.image.fault(&error))? {
            let path = format!("{folder}/{name}");
            if arguments.json {
                println!("{}", object(&path, &attributes));
            } else {
                let Attributes { inode, links, uid, gid, size_bytes, .. } = attributes;
                println!(
                    "{:06o} {uid}:{gid} links {links} inode {} {size_bytes} bytes {path}",
                    attributes.mode(),
                    inode.0
                );
            }
            if attributes.kind == Kind::Directory {
                folders.push((path, attributes.inode));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn names(volume: &Volume, inode: InodeNumber) -> betrfs::Result<Vec<(String, Attributes)>> {
    let mut names = Vec::new();
    volume.readdir(inode, Cookie::PARENT, &mut |entry| {
        let name = String::from_utf8_lossy(entry.name);
        names.push((printable(&name).into_owned(), entry.attributes));
        true
    })?;
    Ok(names)
}
