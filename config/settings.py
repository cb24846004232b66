"""All settings, from the environment, with safe defaults.

``VIGIL_ENV`` is ``production`` unless said otherwise; ``demo`` and ``test`` are for one host and fill in what they can.
Production refuses to start without its own keys (a system check would come too late: keys are needed at import).
"""

import hashlib
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()

VIGIL_ENV = env.str("VIGIL_ENV", default="production")
if VIGIL_ENV not in {"production", "demo", "test"}:
    raise ImproperlyConfigured(f"VIGIL_ENV is {VIGIL_ENV!r}: set it to production, demo or test.")
PRODUCTION = VIGIL_ENV == "production"


def needed(name: str, meaning: str) -> str:
    """The value of ``name``; outside production a fixed stand-in. Raises ImproperlyConfigured with what to do."""
    value: str = env.str(name, default="")
    if value:
        return value
    if PRODUCTION:
        raise ImproperlyConfigured(f"{name} is not set: {meaning}")
    return hashlib.sha256(f"vigil {VIGIL_ENV} {name}".encode()).hexdigest()


def number(name: str, default: float) -> float:
    """The value of ``name`` as a number, zero or more. Raises ImproperlyConfigured with what to do."""
    text = env.str(name, default="")
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ImproperlyConfigured(f"{name} is not a number: set it to one, such as {default:g}, or leave it out.")
    return value


def whole(name: str, default: int) -> int:
    """The value of ``name`` as a whole number. Raises ImproperlyConfigured with what to do."""
    value = number(name, default)
    if value != int(value):
        raise ImproperlyConfigured(f"{name} is not a whole number: set it to one, such as {default}, or leave it out.")
    return int(value)


# --- Keys -------------------------------------------------------------------------------------------------------------
SECRET_KEY = needed("SECRET_KEY", "set it to a long random text; it signs sessions and queued tasks.")
VIGIL_CREDENTIAL_KEYS = needed(
    "VIGIL_CREDENTIAL_KEYS",
    "set it to 'id:64 hexadecimal digits'; several, newest first, separated by commas. It encrypts credentials.",
)
if ":" not in VIGIL_CREDENTIAL_KEYS:
    VIGIL_CREDENTIAL_KEYS = f"local:{VIGIL_CREDENTIAL_KEYS}"
VIGIL_EFFECT_KEY = needed(
    "VIGIL_EFFECT_KEY", "set it to 64 hexadecimal digits; it signs the keys sent to destinations."
)

# --- Where ------------------------------------------------------------------------------------------------------------
if not env.str("DATABASE_URL", default=""):
    raise ImproperlyConfigured(
        "DATABASE_URL is not set: name a PostgreSQL 15 or newer, such as postgres://user:password@host/vigil, "
        "or use script/demo or script/manage, which bring their own."
    )
DATABASES = {"default": env.db("DATABASE_URL")}
if DATABASES["default"].get("ENGINE") != "django.db.backends.postgresql":
    raise ImproperlyConfigured("DATABASE_URL does not name a PostgreSQL: Vigil needs PostgreSQL 15 or newer.")
DATABASES["default"]["CONN_MAX_AGE"] = 60
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = False

DEBUG = False
ALLOWED_HOSTS = env.list(
    "ALLOWED_HOSTS", default=[] if PRODUCTION else ["localhost", "127.0.0.1", "[::1]", "testserver"]
)
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

# --- Rooms ------------------------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_q",
    "django_otp",
    "django_otp.plugins.otp_totp",
    "django_otp.plugins.otp_static",
    "axes",
    "syncs",
]
MIDDLEWARE = [
    "config.access.SafetyHeaders",
    "django.middleware.security.SecurityMiddleware",
    "config.middleware.ContentSecurityPolicy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # Before what refuses bad input: its one sentence is in the reader's language too.
    "django.middleware.locale.LocaleMiddleware",
    "config.middleware.PlainInput",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_otp.middleware.OTPMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "config.access.Gate",
    # Last: it turns the answer to somebody who failed too often into the one that says so.
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "config.context.came_from",
            ],
        },
    }
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- People -----------------------------------------------------------------------------------------------------------
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
if VIGIL_ENV == "test":
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
VIGIL_STAFF_SECOND_FACTOR = env.bool("VIGIL_STAFF_SECOND_FACTOR", default=PRODUCTION)  # 10.1; trials print a password
VIGIL_IDLE_MINUTES = number("VIGIL_IDLE_MINUTES", 120)
VIGIL_PROXIES = whole("VIGIL_PROXIES", 0)
# Numbers, and whose address counts, are in `services/throttling`.
AXES_HANDLER = "syncs.services.throttling.Throttle"
AXES_CLIENT_IP_CALLABLE = "syncs.services.throttling.client_address"
AXES_LOCKOUT_CALLABLE = "syncs.views.account.locked_out"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"], "ip_address"]
AXES_FAILURE_LIMIT = "syncs.services.throttling.failures_allowed"
AXES_COOLOFF_TIME = "syncs.services.throttling.waits"
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = AXES_VERBOSE = False
OTP_ADMIN_HIDE_SENSITIVE_DATA = True
OTP_TOTP_ISSUER = "Vigil"
SESSION_COOKIE_AGE = 7 * 86_400  # then everybody logs in again, idle or not
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = PRODUCTION
SECURE_SSL_REDIRECT = env.bool("SECURE_SSL_REDIRECT", default=PRODUCTION)
SECURE_HSTS_SECONDS = whole("SECURE_HSTS_SECONDS", 31_536_000 if PRODUCTION else 0)
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = PRODUCTION
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.bool("BEHIND_PROXY", default=False) else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

# --- Language and time ------------------------------------------------------------------------------------------------
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch"), ("hi", "हिन्दी")]
LOCALE_PATHS = [BASE_DIR / "locale"]
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600
LANGUAGE_COOKIE_SAMESITE = "Lax"
LANGUAGE_COOKIE_HTTPONLY = True
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATIC_ROOT = env.str("STATIC_ROOT", default=str(BASE_DIR / ".vigil" / "static"))
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True

# --- The engine's tunables (each a product default; PRODUCT numbers beside them) --------------------------------------
VIGIL_LEASE_SECONDS = number("VIGIL_LEASE_SECONDS", 900.0)  # 3.1
VIGIL_LEASE_RENEW_SECONDS = number("VIGIL_LEASE_RENEW_SECONDS", 300.0)  # 3.1
VIGIL_SLICE_SECONDS = number("VIGIL_SLICE_SECONDS", 60.0)  # 3.5
VIGIL_RETRY_SCALE = number("VIGIL_RETRY_SCALE", 1.0)  # tests only: shrinks the waits of 4.1
VIGIL_CALL_SECONDS = number("VIGIL_CALL_SECONDS", 60.0)  # 3.2: the most a call may take in all
VIGIL_SETTLE_SECONDS = number("VIGIL_SETTLE_SECONDS", 5.0)  # 2.4: how long an append may take to show
VIGIL_RECOUNT_SECONDS = number("VIGIL_RECOUNT_SECONDS", 60.0)  # 5.2
VIGIL_IDENTITY_SECONDS = number("VIGIL_IDENTITY_SECONDS", 3600.0)  # 5.2, 6.4
VIGIL_RUNS_PER_WORKER = whole("VIGIL_RUNS_PER_WORKER", 50)
VIGIL_LEDGER_DAYS = whole("VIGIL_LEDGER_DAYS", 7)  # 2.5
VIGIL_PREVIEW_MINUTES = whole("VIGIL_PREVIEW_MINUTES", 60)  # 6.1
VIGIL_ALLOW_LOOPBACK = env.bool("VIGIL_ALLOW_LOOPBACK", default=not PRODUCTION)  # sandbox vendors

# --- The queue: a messenger, never the truth --------------------------------------------------------------------------
# retry must exceed timeout x (1 + (queue_limit + 1) / workers): django-q2 counts it from the fetch.
Q_CLUSTER = {
    "name": env.str("VIGIL_CLUSTER", default="vigil"),
    "orm": "default",
    "workers": max(1, whole("VIGIL_WORKERS", 2)),
    "timeout": 300,
    "retry": 1200,
    "queue_limit": 2,
    "bulk": 1,
    "poll": 0.2 if not PRODUCTION else 1,
    "save_limit": -1,
    "max_attempts": 5,
    "ack_failures": True,
    "catch_up": False,
    "label": "Queue",
}

# --- The admin's theme: the functions that are named say what each person may see -------------------------------------
UNFOLD = {
    "SITE_TITLE": "Vigil",
    "SITE_HEADER": "Vigil",
    "SITE_SYMBOL": "visibility",
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_BACK_BUTTON": True,
    "SHOW_LANGUAGES": False,
    "DASHBOARD_CALLBACK": "syncs.admin.watch.dashboard",
    "STYLES": ["syncs.admin.navigation.style"],
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "syncs.admin.navigation.mark"}],
    "SIDEBAR": {"navigation": "syncs.admin.navigation.navigation", "show_search": False},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name} {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.str("LOG_LEVEL", default="INFO")},
    "loggers": {"axes": {"level": "WARNING"}, "httpx": {"level": "WARNING"}, "django-q": {"level": "WARNING"}},
}
