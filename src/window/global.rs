//! The global window: all rows of a key.
//!
//! | | |
//! |---|---|
//! | class | context free: it has no edges |
//! | stored | one slice, with its first and last time |
//! | time | O(1) per row |
//! | source | a session whose gap is never reached; the Onyx notes and Akidau et al., VLDB 2015, §2.2 have it by this name |

use super::listing::Listed;

/// All rows of a key, called by the times of the first and the last of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Global;

impl Global {
    /// First and last time: the window is called by both.
    pub fn extent(&self, first: i64, last: i64) -> (i64, i64) {
        (first, last)
    }

    /// Lists it, if there are rows from rank `since` on. O(1).
    pub fn list(&self, times: &[i64], since: usize, out: &mut Vec<Listed>) {
        if since < times.len() {
            out.push(Listed::by_rows(0, times.len(), times));
        }
    }
}
