# Part of each postrm. Only the last of Folio's daemons takes along what they share.
if [ "$1" = purge ]; then
  rmdir /etc/folio 2>/dev/null || true
  if [ ! -e /usr/bin/folio-manager ] && [ ! -e /usr/bin/folio-worker ] && [ ! -e /usr/bin/folio-gateway ]; then
    rm -rf /run/folio
    rmdir /var/lib/folio/models /var/lib/folio 2>/dev/null || true
    if [ -d /var/lib/folio ]; then
      echo "/var/lib/folio is kept, because it has files that you put there. Remove it when you do not need them."
    fi
    if getent passwd folio >/dev/null; then
      userdel folio >/dev/null 2>&1 || echo "the user folio is kept, because one of its processes runs"
    fi
    # userdel keeps a group that has other members, which an administrator added.
    if ! getent passwd folio >/dev/null && getent group folio >/dev/null; then
      groupdel folio >/dev/null 2>&1 || true
    fi
  fi
fi
