"""Settings for the migrations: one app, and the database that DB_HOST, DB_PORT, DB_USER, DB_PASSWORD and DB_NAME name."""

import os

import pymysql

# Django asks for mysqlclient, which is compiled from C. PyMySQL has the same interface, but not the same version.
pymysql.version_info = (2, 2, 1, "final", 0)
pymysql.install_as_MySQLdb()

INSTALLED_APPS = ["plans"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.mysql",
        "HOST": os.environ["DB_HOST"],
        "PORT": os.environ.get("DB_PORT", "3306"),
        "USER": os.environ["DB_USER"],
        "PASSWORD": os.environ["DB_PASSWORD"],
        "NAME": os.environ["DB_NAME"],
    }
}
