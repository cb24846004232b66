"""Workspaces are made with names and zones that exist."""

import pytest

from syncs.errors import NameTaken, ZoneUnknown
from syncs.models import Workspace
from syncs.services import vigil, workspace_create

pytestmark = pytest.mark.django_db


def test_a_zone_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ZoneUnknown, match="Nowhere/X"):
        workspace_create(vigil(), name="B", slug="b", zone="Nowhere/X")
    assert Workspace.objects.count() == 0


def test_a_name_that_is_taken_is_refused_in_one_sentence() -> None:
    workspace_create(vigil(), name="B", slug="b", zone="Europe/Berlin")
    with pytest.raises(NameTaken, match="'b' already"):
        workspace_create(vigil(), name="C", slug="b")
