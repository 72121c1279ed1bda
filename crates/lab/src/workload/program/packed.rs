//! A device's image as one file without its holes, which is whole or told to be broken.
//!
//! ```text
//! MAGIC, the image's length, then for each piece its place, its length and its bytes, then END, then BLAKE3 of all of it
//! ```
//! Numbers are of 64 bits, little-endian. A piece has [`PIECE_BYTES`] at most.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

const MAGIC: &[u8; 16] = b"plumb image 0001";
/// In place of a piece's place: there are no more.
const END: u64 = u64::MAX;
const PIECE_BYTES: usize = 1 << 20;
const HASH_BYTES: usize = 32;

/// Writes what `image` holds.
pub(super) fn pack(image: &File, to: &mut impl Write) -> io::Result<()> {
    let mut out = Hashed { inner: BufWriter::new(to), hasher: blake3::Hasher::new() };
    let length = image.metadata()?.len();
    out.write_all(MAGIC)?;
    out.write_all(&length.to_le_bytes())?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while let Some((from, to)) = data_from(image, at)? {
        at = from;
        while at < to {
            let bytes = usize::try_from(to - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            let piece = &mut piece[..bytes];
            image.read_exact_at(piece, at)?;
            out.write_all(&at.to_le_bytes())?;
            out.write_all(&(bytes as u64).to_le_bytes())?;
            out.write_all(piece)?;
            at += bytes as u64;
        }
    }
    out.write_all(&END.to_le_bytes())?;
    let hash = out.hasher.finalize();
    out.inner.write_all(hash.as_bytes())?;
    out.inner.flush()
}

/// The next stretch of data at `at` or behind it.
fn data_from(image: &File, at: u64) -> io::Result<Option<(u64, u64)>> {
    let from = match rustix::fs::seek(image, SeekFrom::Data(at)) {
        Err(Errno::NXIO) => return Ok(None),
        found => found?,
    };
    Ok(Some((from, rustix::fs::seek(image, SeekFrom::Hole(from))?)))
}

/// Makes `image`, which is empty, what was packed.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] where it is not what [`pack`] wrote; the image is of no use then.
pub(super) fn unpack(from: impl Read, image: &File) -> io::Result<()> {
    let broken = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut from = Hashed { inner: BufReader::new(from), hasher: blake3::Hasher::new() };
    let mut magic = [0; MAGIC.len()];
    from.read_exact(&mut magic)?;
    if magic != *MAGIC {
        return Err(broken("it does not begin as an image does"));
    }
    let length = from.number()?;
    image.set_len(length)?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let at = from.number()?;
        if at == END {
            break;
        }
        let bytes = usize::try_from(from.number()?).unwrap_or(usize::MAX);
        let Some(piece) = piece.get_mut(..bytes) else { return Err(broken("a piece is too long")) };
        if at.checked_add(bytes as u64).is_none_or(|end| end > length) {
            return Err(broken("a piece lies behind the end"));
        }
        from.read_exact(piece)?;
        image.write_all_at(piece, at)?;
    }
    let hash = from.hasher.finalize();
    let mut kept = [0; HASH_BYTES];
    from.inner.read_exact(&mut kept)?;
    if hash != kept { Err(broken("its hash is another")) } else { Ok(()) }
}

/// Takes in what passes through.
struct Hashed<T> {
    inner: T,
    hasher: blake3::Hasher,
}

impl<T: Write> Hashed<T> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.inner.write_all(bytes)
    }
}

impl<T: Read> Hashed<T> {
    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.read_exact(bytes)?;
        self.hasher.update(bytes);
        Ok(())
    }

    fn number(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image of 3 GiB with data at its start, over a page's edge, and at its end.
    fn image() -> File {
        let image = tempfile::tempfile().unwrap();
        image.set_len(3 << 30).unwrap();
        image.write_all_at(b"start", 0).unwrap();
        image.write_all_at(&vec![7; 3 << 20], (1 << 30) - 5).unwrap();
        image.write_all_at(b"end", (3 << 30) - 3).unwrap();
        image
    }

    fn packed() -> Vec<u8> {
        let mut bytes = Vec::new();
        pack(&image(), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn an_image_comes_back_without_its_holes() {
        let packed = packed();
        assert!(packed.len() < 4 << 20, "{}", packed.len());
        let image = tempfile::tempfile().unwrap();
        unpack(&packed[..], &image).unwrap();
        let mut bytes = [0; 8];
        image.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"start\0\0\0");
        image.read_exact_at(&mut bytes, (1 << 30) - 7).unwrap();
        assert_eq!(bytes, [0, 0, 7, 7, 7, 7, 7, 7]);
        image.read_exact_at(&mut bytes, (3 << 30) - 8).unwrap();
        assert_eq!((&bytes, image.metadata().unwrap().len()), (b"\0\0\0\0\0end", 3 << 30));
    }

    #[test]
    fn whatever_is_broken_is_told() {
        let good = packed();
        let refused = |bytes: &[u8]| unpack(bytes, &tempfile::tempfile().unwrap()).is_err();
        for cut in [0, 15, 20, 40, good.len() / 2, good.len() - 1] {
            assert!(refused(&good[..cut]), "cut at {cut}");
        }
        for place in (0..100).chain([good.len() / 2, good.len() - 1]) {
            let mut bad = good.clone();
            bad[place] ^= 0x10;
            assert!(refused(&bad), "changed at {place}");
        }
    }
}
