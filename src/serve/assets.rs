//! The files of the page.

/// A file of the page.
pub(super) struct Asset {
    pub(super) path: &'static str,
    pub(super) content_type: &'static str,
    pub(super) text: &'static str,
}

/// All files. The first one is the page.
pub(super) const ASSETS: [Asset; 4] = [
    Asset {
        path: "/",
        content_type: "text/html; charset=utf-8",
        text: include_str!("page/index.html"),
    },
    Asset {
        path: "/page.css",
        content_type: "text/css; charset=utf-8",
        text: include_str!("page/page.css"),
    },
    Asset {
        path: "/page.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("page/page.js"),
    },
    Asset {
        path: "/icon.svg",
        content_type: "image/svg+xml",
        text: include_str!("page/icon.svg"),
    },
];
