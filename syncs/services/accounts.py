"""A person's second factor: a device that shows codes, and recovery codes for the day it is lost (PRODUCT 10.1).

Codes are checked by django-otp: one that was used is refused, and so is a try too soon after a wrong one. Recovery
codes are kept as hashes only, and each works once.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _
from django_otp.models import Device
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

from syncs.domain.clock import SystemClock
from syncs.errors import NotFound, PermissionMissing
from syncs.services.actors import Actor, audit

if TYPE_CHECKING:
    from collections.abc import Sequence

RECOVERY_CODES: Final = 10
RECOVERY_BYTES: Final = 10
"""Of one recovery code: 80 bits, sixteen letters and digits."""
GROUP: Final = 4
"""Keys and codes are read, typed and compared in groups of so many."""
DEVICE: Final = "Authenticator"
RECOVERY: Final = "Recovery codes"
_SHOWN_BY_DEVICE: Final = re.compile(r"[0-9]{6}")


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of a code: the device it is of, or None. ``wait``: it was not looked at, it is too soon."""

    device: Device | None
    wait: timedelta | None = None


@dataclass(frozen=True, slots=True)
class SecondFactor:
    """What a person has: since when, when it was last used, and how many recovery codes are left."""

    since: datetime | None
    used: datetime | None
    codes_left: int


@dataclass(frozen=True, slots=True)
class Begun:
    """A device that is being set up: what the QR code holds, and the key to type by hand."""

    address: str
    key: str


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody in the superusers' list."""

    user: User
    factor: SecondFactor | None


# --- Looking ----------------------------------------------------------------------------------------------------------
def second_factor_of(user: User) -> SecondFactor | None:
    """What ``user`` has set up; None when they have nothing."""
    device = TOTPDevice.objects.filter(user=user, confirmed=True).order_by("pk").first()
    if device is None:
        return None
    left = sum(one.token_set.count() for one in StaticDevice.objects.filter(user=user, confirmed=True))
    return SecondFactor(device.created_at, device.last_used_at, left)


def second_factor_begun(user: User) -> Begun | None:
    """The device that ``user`` is setting up; None when they are not."""
    device = TOTPDevice.objects.filter(user=user, confirmed=False).order_by("pk").first()
    if device is None:
        return None
    return Begun(device.config_url, grouped(base64.b32encode(device.bin_key).decode().rstrip("=")))


def second_factors(actor: Actor) -> tuple[Holder, ...]:
    """Staff, and whoever else has a second factor. Superusers only; raises NotFound for others."""
    _superuser(actor)
    asked = Q(is_staff=True) | Q(is_superuser=True) | Q(totpdevice__confirmed=True)
    people = User.objects.filter(asked, is_active=True).distinct().order_by("username")
    return tuple(Holder(one, second_factor_of(one)) for one in people)


def grouped(text: str) -> str:
    return " ".join(text[at : at + GROUP] for at in range(0, len(text), GROUP))


# --- Trying -----------------------------------------------------------------------------------------------------------
@transaction.atomic
def second_factor_try(user: User, code: str) -> Tried:
    """Check a code of the device, or a recovery code. A right one is used up: it is refused from then on.

    The row is locked meanwhile, so that one code lets in once however often it is sent at the same time.
    """
    plain = re.sub(r"[\s-]", "", code).lower()
    is_of_device = _SHOWN_BY_DEVICE.fullmatch(plain) is not None
    asked: Iterator[Device] = iter(_confirmed(TOTPDevice if is_of_device else StaticDevice, user))
    return _first(asked, plain if is_of_device else _hashed(plain))


def _confirmed(kind: type[Device], user: User) -> Sequence[Device]:
    rows = kind._default_manager.select_for_update().filter(user=user, confirmed=True)
    return tuple(rows.order_by("pk"))


def _first(devices: Iterator[Device], token: str) -> Tried:
    wait: timedelta | None = None
    for device in devices:
        allowed, why = device.verify_is_allowed()
        if not allowed:
            wait = why["locked_until"] - SystemClock().now() if why and "locked_until" in why else timedelta(seconds=1)
        elif device.verify_token(token):
            return Tried(device)
    return Tried(None, wait)


def _hashed(code: str) -> str:
    """What is kept of a recovery code: as random as the code, and as long as its column allows."""
    return base64.b32encode(hashlib.sha256(f"recovery {code}".encode()).digest()[:RECOVERY_BYTES]).decode()


# --- Setting up -------------------------------------------------------------------------------------------------------
@transaction.atomic
def second_factor_begin(actor: Actor) -> None:
    """A new key for a device. It counts only once a code of it was seen; the device before goes on until then."""
    user = _somebody(actor)
    TOTPDevice.objects.filter(user=user, confirmed=False).delete()
    TOTPDevice.objects.create(user=user, name=DEVICE, confirmed=False)


@transaction.atomic
def second_factor_confirm(actor: Actor, code: str) -> tuple[Tried, tuple[str, ...]]:
    """The first code of the new device: it takes the place of the one before. Gives new recovery codes, this once."""
    user = _somebody(actor)
    begun = TOTPDevice.objects.select_for_update().filter(user=user, confirmed=False).order_by("pk")[:1]
    tried = _first(iter(begun), re.sub(r"\s", "", code))
    if tried.device is None:
        return tried, ()
    replaced = TOTPDevice.objects.filter(user=user, confirmed=True).delete()[0] > 0
    TOTPDevice.objects.filter(pk=tried.device.pk).update(confirmed=True)
    tried.device.confirmed = True
    audit(actor, "second_factor.set_up", actor.label, workspace=None, after={"replaced": replaced})
    return tried, _new_codes(user)


@transaction.atomic
def recovery_codes_renew(actor: Actor) -> tuple[str, ...]:
    """New recovery codes; those before work no more."""
    user = _somebody(actor)
    audit(actor, "second_factor.codes_renewed", actor.label, workspace=None)
    return _new_codes(user)


def _new_codes(user: User) -> tuple[str, ...]:
    StaticDevice.objects.filter(user=user).delete()
    device = StaticDevice.objects.create(user=user, name=RECOVERY, confirmed=True)
    codes = [
        base64.b32encode(secrets.token_bytes(RECOVERY_BYTES)).decode().lower() for _number in range(RECOVERY_CODES)
    ]
    for code in codes:
        device.token_set.create(token=_hashed(code))
    return tuple("-".join(grouped(code).split()) for code in codes)


# --- Taking away ------------------------------------------------------------------------------------------------------
@transaction.atomic
def second_factor_remove(actor: Actor) -> None:
    """A person does without again. The page has asked for a code, and whether staff may."""
    user = _somebody(actor)
    if _forget(user):
        audit(actor, "second_factor.removed", actor.label, workspace=None)


@transaction.atomic
def second_factor_reset(actor: Actor, user: User, *, reason: str) -> None:
    """For somebody who lost their device: they set up another one at their next log-in. Superusers, or Vigil itself.

    Their open pages count as unproven from this moment on. Raises NotFound for others.
    """
    _superuser(actor)
    had = _forget(user)
    audit(actor, "second_factor.reset", user.get_username(), workspace=None, before={"set_up": had}, reason=reason)


def _forget(user: User) -> bool:
    """Whether there was anything to forget."""
    deleted = [kind._default_manager.filter(user=user).delete()[0] for kind in (TOTPDevice, StaticDevice)]
    return any(deleted)


def _somebody(actor: Actor) -> User:
    if actor.user is None:
        raise PermissionMissing(_("Only a person has a second factor. Log in as one."))
    return actor.user


def _superuser(actor: Actor) -> None:
    if actor.user is not None and not (actor.user.is_active and actor.user.is_superuser):
        raise NotFound(_("There is no page at this address. Go back to your workspaces."))
