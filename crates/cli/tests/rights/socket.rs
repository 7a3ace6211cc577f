//! The control socket: strangers are not answered, and nobody's daemon is asked in another's name.

use crate::person::ANN;
use crate::site::Site;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};

#[test]
fn strangers_are_refused_even_when_they_can_connect() {
    let Some(site) = Site::new("a stranger at the control socket") else { return };
    let (store, place) = (site.at("store"), site.at("place"));
    site.mount(None, &store, &place);
    // Somebody has opened what should be closed; the daemon still looks who speaks.
    fs::set_permissions(&store, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(store.join("control"), fs::Permissions::from_mode(0o666)).unwrap();
    let reply = ANN.does(|| {
        let mut stream = UnixStream::connect(store.join("control")).unwrap();
        let _ = stream.write_all(b"{\"seamount\":1,\"verb\":\"destroy\",\"volume\":\"default\"}\n");
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    });
    assert!(reply.contains("belongs to another user"), "{reply}");
    let status = site.run(None, &["status".as_ref(), place.as_os_str()]);
    assert!(status.success(), "{status}");
    site.umount(None, &place);
}

#[test]
fn a_link_to_another_stores_socket_is_not_followed() {
    let Some(site) = Site::new("a control socket that is a link") else { return };
    let (store, place) = (site.at("store"), site.at("place"));
    site.mount(None, &store, &place);
    fs::write(place.join("precious"), "x").unwrap();
    // A store of Ann's whose socket is said to be that of root's daemon.
    let anns = site.directory("anns", Some(ANN), 0o755);
    let trap = anns.join("trap");
    let made = site.run(Some(ANN), &["format".as_ref(), trap.as_os_str()]);
    assert!(made.success(), "{made}");
    ANN.does(|| symlink(store.join("control"), trap.join("control")).unwrap());
    let status = site.run(None, &["status".as_ref(), "--json".as_ref(), trap.as_os_str()]);
    assert!(!status.text().contains(place.to_str().unwrap()), "{status}");
    let gone = site.run(None, &["destroy".as_ref(), "--yes".as_ref(), trap.as_os_str()]);
    assert!(gone.success(), "the trap itself goes: {gone}");
    assert_eq!(fs::read(place.join("precious")).unwrap(), b"x");
    site.umount(None, &place);
    site.mount(None, &store, &place);
    assert_eq!(fs::read(place.join("precious")).unwrap(), b"x");
    site.umount(None, &place);
}

#[test]
fn another_users_socket_in_a_store_is_not_believed() {
    let Some(site) = Site::new("somebody else's control socket") else { return };
    let store = site.at("store");
    assert!(site.run(None, &["format".as_ref(), store.as_os_str()]).success());
    fs::set_permissions(&store, fs::Permissions::from_mode(0o777)).unwrap();
    let listener = ANN.does(|| {
        let listener = UnixListener::bind(store.join("control")).unwrap();
        fs::set_permissions(store.join("control"), fs::Permissions::from_mode(0o777)).unwrap();
        listener
    });
    let liar = std::thread::spawn(move || {
        // A socket remembers who made it, not who answers.
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"R\x02\x00\x00\x00{}");
    });
    let status = site.run(None, &["status".as_ref(), store.as_os_str()]);
    assert_eq!(status.status.unwrap().code(), Some(6), "{status}");
    assert!(status.all().contains("does not own the store"), "{status}");
    liar.join().unwrap();
}
